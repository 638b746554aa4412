package schema

import (
	"slices"
	"strings"

	"cqld/types"
)

func applyCreateFunction(s *Schema, c *CreateFunction) (*Schema, error) {
	f := c.Function
	k := s.keyspaces[f.Keyspace]
	if k == nil {
		return nil, &NotFound{Keyspace: f.Keyspace}
	}
	if err := k.checkOwnDefinition(); err != nil {
		return nil, err
	}
	f, err := k.currentFunction(f)
	if err != nil {
		return nil, err
	}
	signature := f.Signature()
	if k.aggregates[signature] != nil {
		return nil, invalidf("Function '%s' cannot replace an aggregate", f.Name)
	}
	if old := k.functions[signature]; old != nil {
		switch {
		case c.IfNotExists:
			return s, nil
		case !c.OrReplace:
			return nil, invalidf("Function '%s' already exists", f.Name)
		case old.CalledOnNull != f.CalledOnNull:
			return nil, invalidf("Function '%s' must have %s directive", f.Name, NullDirective(f.CalledOnNull))
		case !compatible(f.Returns, old.Returns):
			return nil, invalidf("Cannot replace function '%s', the new return type %s is not compatible with the "+
				"return type %s of existing function",
				f.Name, DeclaredText(f.Returns), DeclaredText(old.Returns))
		case old.equal(f):
			return s, nil
		}
	}
	next := k.clone()
	next.functions[signature] = f
	next.resetResults(f)
	return s.with(next), nil
}

// NullDirective returns how CREATE FUNCTION writes the handling of null arguments.
func NullDirective(calledOnNull bool) string {
	if calledOnNull {
		return "CALLED ON NULL INPUT"
	}
	return "RETURNS NULL ON NULL INPUT"
}

// currentFunction returns f with the current versions of the user-defined types of k.
func (k *Keyspace) currentFunction(f *Function) (*Function, error) {
	changed := *f
	changed.ArgTypes = slices.Clone(f.ArgTypes)
	var err error
	for i, t := range changed.ArgTypes {
		if changed.ArgTypes[i], err = k.current(t); err != nil {
			return nil, err
		}
	}
	changed.Returns, err = k.current(f.Returns)
	return &changed, err
}

// compatible reports whether values of type old can be read as values of type t, which may therefore replace it as the
// type of a result.
func compatible(t, old *types.Type) bool {
	if t.Freeze().Equal(old.Freeze()) {
		return true
	}
	switch t.Kind() {
	case types.Blob:
		return old.Kind() == types.Ascii || old.Kind() == types.Text
	case types.Text:
		return old.Kind() == types.Ascii
	}
	return false
}

func applyCreateAggregate(s *Schema, c *CreateAggregate) (*Schema, error) {
	a := c.Aggregate
	k := s.keyspaces[a.Keyspace]
	if k == nil {
		return nil, misconfiguredf("Keyspace %s doesn't exist", a.Keyspace)
	}
	if err := k.checkOwnDefinition(); err != nil {
		return nil, err
	}
	a, err := k.currentAggregate(a)
	if err != nil {
		return nil, err
	}
	if err := k.checkAggregate(a); err != nil {
		return nil, err
	}
	signature := a.Signature()
	if k.functions[signature] != nil {
		return nil, invalidf("Aggregate '%s' cannot replace a function", a.Name)
	}
	if old := k.aggregates[signature]; old != nil {
		switch {
		case c.IfNotExists:
			return s, nil
		case !c.OrReplace:
			return nil, invalidf("Aggregate '%s' already exists", a.Name)
		case !compatible(a.Returns, old.Returns):
			return nil, invalidf("Cannot replace aggregate '%s', the new return type %s isn't compatible with the "+
				"return type %s of existing function",
				a.Name, DeclaredText(a.Returns), DeclaredText(old.Returns))
		case old.equal(a):
			return s, nil
		}
	}
	next := k.clone()
	next.aggregates[signature] = a
	return s.with(next), nil
}

func (k *Keyspace) currentAggregate(a *Aggregate) (*Aggregate, error) {
	changed := *a
	changed.ArgTypes = slices.Clone(a.ArgTypes)
	var err error
	for i, t := range changed.ArgTypes {
		if changed.ArgTypes[i], err = k.current(t); err != nil {
			return nil, err
		}
	}
	changed.StateType, err = k.current(a.StateType)
	return &changed, err
}

// checkAggregate checks the functions of an aggregate, and sets the type of its result.
func (k *Keyspace) checkAggregate(a *Aggregate) error {
	args := append([]*types.Type{a.StateType}, a.ArgTypes...)
	state := k.StateOf(a)
	if state == nil {
		if k.Aggregate(a.StateFunction, args) != nil {
			return invalidf("State function %s.%s isn't a scalar function", k.Name, FunctionText(a.StateFunction, args))
		}
		return invalidf("State function %s.%s doesn't exist", k.Name, FunctionText(a.StateFunction, args))
	}
	if !state.Returns.Freeze().Equal(a.StateType.Freeze()) {
		return invalidf("State function %s.%s return type must be the same as the first argument type - check "+
			"STYPE, argument and return types",
			k.Name, FunctionText(a.StateFunction, args))
	}
	a.Returns = state.Returns
	if a.FinalFunction != "" {
		final := k.FinalOf(a)
		if final == nil {
			if k.Aggregate(a.FinalFunction, args[:1]) != nil {
				return invalidf("Final function %s.%s isn't a scalar function", k.Name,
					FunctionText(a.FinalFunction, args[:1]))
			}
			return invalidf("Final function %s.%s doesn't exist", k.Name, FunctionText(a.FinalFunction, args[:1]))
		}
		a.Returns = final.Returns
	}
	if a.Initial == nil && !state.CalledOnNull {
		return invalidf("Cannot create aggregate '%s' without INITCOND because state function %s.%s does not accept "+
			"'null' arguments",
			a.Name, k.Name, a.StateFunction)
	}
	return nil
}

// resetResults sets the results of the aggregates whose final function is f, which has replaced one with another,
// compatible result. r must be a clone.
func (r *routines) resetResults(f *Function) {
	for signature, a := range r.aggregates {
		if r.FinalOf(a) == f {
			changed := *a
			changed.Returns = f.Returns
			r.aggregates[signature] = &changed
		}
	}
}

func applyDropFunction(s *Schema, c *DropFunction) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil {
		return s, c.notFound()
	}
	f, err := c.find(k)
	if f == "" || err != nil {
		return s, err
	}
	next := k.clone()
	if c.Aggregate {
		delete(next.aggregates, f)
		return s.with(next), nil
	}
	dropped := k.functions[f]
	if users := k.aggregatesOf(dropped); len(users) > 0 {
		return nil, invalidf("Function '%s' is still referenced by aggregates %s", c.text(), strings.Join(users, ", "))
	}
	if users := s.maskedBy(dropped); len(users) > 0 {
		return nil, invalidf("Function '%s' is still referenced by column masks in tables %s", c.text(),
			strings.Join(users, ", "))
	}
	delete(next.functions, f)
	return s.with(next), nil
}

// find returns the signature of the function or aggregate to be dropped; it is empty if there is none and IF EXISTS
// allows that.
func (c *DropFunction) find(k *Keyspace) (string, error) {
	functions, aggregates := k.FunctionsNamed(c.Name), k.AggregatesNamed(c.Name)
	what := "FUNCTION"
	if c.Aggregate {
		what = "AGGREGATE"
	}
	if !c.HasArgs && len(functions)+len(aggregates) > 1 {
		return "", invalidf("'DROP %s %s' matches multiple function definitions; specify the argument types by "+
			"issuing a statement like "+
			"'DROP %s %s (type, type, ...)'. You can use cqlsh 'DESCRIBE %s %s' command to find all overloads",
			what, c.Name, what, c.Name, what, c.Name)
	}
	signature := FunctionSignature(c.Name, c.Args)
	switch {
	case c.HasArgs && c.Aggregate && k.aggregates[signature] != nil, c.HasArgs && !c.Aggregate &&
		k.functions[signature] != nil:
		return signature, nil
	case !c.HasArgs && c.Aggregate && len(aggregates) == 1:
		return aggregates[0].Signature(), nil
	case !c.HasArgs && !c.Aggregate && len(functions) == 1:
		return functions[0].Signature(), nil
	}
	return "", c.notFound()
}

// notFound returns the error for a function or aggregate that does not exist, or nil with IF EXISTS.
func (c *DropFunction) notFound() error {
	if c.IfExists {
		return nil
	}
	if c.Aggregate {
		return invalidf("Aggregate '%s' doesn't exist", c.text())
	}
	return invalidf("Function '%s' doesn't exist", c.text())
}

// text returns the name, with the types of the arguments if the statement has them.
func (c *DropFunction) text() string {
	if c.HasArgs {
		return c.Keyspace + "." + FunctionText(c.Name, c.Args)
	}
	return c.Keyspace + "." + c.Name
}

// aggregatesOf returns the names of the aggregates that call f.
func (k *Keyspace) aggregatesOf(f *Function) []string {
	var names []string
	for _, a := range k.Aggregates() {
		if k.StateOf(a) == f || k.FinalOf(a) == f {
			names = append(names, k.Name+"."+a.Name)
		}
	}
	return names
}

// maskedBy returns the tables with columns that f masks.
func (s *Schema) maskedBy(f *Function) []string {
	var names []string
	k := s.keyspaces[f.Keyspace]
	for _, name := range k.TableNames() {
		for _, col := range k.tables[name].Columns() {
			if col.Mask != nil && col.Mask.Keyspace == f.Keyspace && col.Mask.Function == f.Name {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// functionsUsing returns the functions and the aggregates that use a user-defined type of k.
func (k *Keyspace) functionsUsing(typeName string) []string {
	var names []string
	for _, f := range k.Functions() {
		if f.usesType(typeName) {
			names = append(names, k.Name+"."+f.Name)
		}
	}
	for _, a := range k.Aggregates() {
		if a.usesType(typeName) {
			names = append(names, k.Name+"."+a.Name)
		}
	}
	return names
}

// initialUsing returns the aggregates whose initial state contains a value of a user-defined type of k.
func (k *Keyspace) initialUsing(typeName string) []string {
	var names []string
	for _, a := range k.Aggregates() {
		if a.Initial != nil && uses(a.StateType, typeName) {
			names = append(names, k.Name+"."+a.Name)
		}
	}
	return names
}

package schema

import (
	"slices"
	"strings"

	"cqld/schema/refused"
	"cqld/types"
)

// applyCreateFunction adds or replaces a function. The result type of a replacement must be compatible with the old
// one, because aggregates and statements use it.
func applyCreateFunction(s *Schema, c *CreateFunction) (*Schema, error) {
	f := c.Function
	k := s.keyspaces[f.Keyspace]
	if k == nil {
		return nil, &refused.NotFound{Keyspace: f.Keyspace}
	}
	if err := k.checkOwnDefinition(); err != nil {
		return nil, err
	}
	// The types may have been altered since the change was created.
	f, err := k.currentFunction(f)
	if err != nil {
		return nil, err
	}
	signature := f.Signature()
	// Functions and aggregates share the space of signatures.
	if k.aggregates[signature] != nil {
		return nil, invalidf("Function '%s' cannot replace an aggregate", f.Name)
	}
	if old := k.functions[signature]; old != nil {
		switch {
		case c.IfNotExists:
			return s, nil
		case !c.OrReplace:
			return nil, invalidf("Function '%s' already exists", f.Name)
		// As in Cassandra, IF NOT EXISTS and OR REPLACE are checked first.
		case old.CalledOnNull != f.CalledOnNull:
			return nil, invalidf("Function '%s' must have %s directive", f.Name, NullDirective(f.CalledOnNull))
		case !compatible(f.Returns, old.Returns):
			return nil, invalidf("Cannot replace function '%s', the new return type %s is not compatible with the "+
				"return type %s of existing function",
				f.Name, DeclaredText(f.Returns), DeclaredText(old.Returns))
		// An equal definition changes nothing, so no event is sent.
		case old.equal(f):
			return s, nil
		}
	}
	// A replaced function keeps its signature, so aggregates find the new one by name and argument types.
	next := k.clone()
	next.functions[signature] = f
	// An aggregate with f as its final function returns f's result type.
	next.resetResults(f)
	return s.with(next), nil
}

// NullDirective returns how CREATE FUNCTION writes the handling of null arguments, also for messages.
func NullDirective(calledOnNull bool) string {
	if calledOnNull {
		return "CALLED ON NULL INPUT"
	}
	return "RETURNS NULL ON NULL INPUT"
}

// currentFunction returns a copy of f with the current versions of k's user-defined types. It fails if a type no longer
// exists. f is part of the Change and is not modified.
func (k *Keyspace) currentFunction(f *Function) (*Function, error) {
	changed := *f
	changed.ArgTypes = slices.Clone(f.ArgTypes)
	// ArgTypes was cloned above, because the Change must not be modified.
	var err error
	for i, t := range changed.ArgTypes {
		if changed.ArgTypes[i], err = k.current(t); err != nil {
			return nil, err
		}
	}
	changed.Returns, err = k.current(f.Returns)
	return &changed, err
}

// compatible reports whether values of type old can be read as values of type t, so that t may replace old as a result
// type. Frozen and unfrozen values are the same.
//
//	blob    ascii, text
//	text    ascii
//	others  themselves only
func compatible(t, old *types.Type) bool {
	if t.Freeze().Equal(old.Freeze()) {
		return true
	}
	// These kinds are stored alike: ASCII text is valid UTF-8, and both are bytes.
	switch t.Kind() {
	case types.Blob:
		return old.Kind() == types.Ascii || old.Kind() == types.Text
	case types.Text:
		return old.Kind() == types.Ascii
	}
	return false
}

// applyCreateAggregate adds or replaces an aggregate. The result type is computed here, from the functions that exist
// at this point of the log.
func applyCreateAggregate(s *Schema, c *CreateAggregate) (*Schema, error) {
	a := c.Aggregate
	k := s.keyspaces[a.Keyspace]
	if k == nil {
		// Unlike for functions, Cassandra returns a configuration error here.
		return nil, misconfiguredf("Keyspace %s doesn't exist", a.Keyspace)
	}
	if err := k.checkOwnDefinition(); err != nil {
		return nil, err
	}
	a, err := k.currentAggregate(a)
	if err != nil {
		return nil, err
	}
	// It sets a.Returns, which the comparison with an existing aggregate needs. a is a copy by now.
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

// currentAggregate returns a copy of a with the current versions of k's user-defined types. a is not modified.
func (k *Keyspace) currentAggregate(a *Aggregate) (*Aggregate, error) {
	changed := *a
	changed.ArgTypes = slices.Clone(a.ArgTypes)
	var err error
	for i, t := range changed.ArgTypes {
		if changed.ArgTypes[i], err = k.current(t); err != nil {
			return nil, err
		}
	}
	// checkAggregate sets Returns, from the functions.
	changed.StateType, err = k.current(a.StateType)
	return &changed, err
}

// checkAggregate checks the functions of an aggregate, and sets a.Returns; a must be a copy. It finds the functions in
// k by their argument types. For avg(int) with SFUNC f, STYPE s and FINALFUNC g:
//
//	f(s, int)   returns s
//	g(s)        returns the result of the aggregate
func (k *Keyspace) checkAggregate(a *Aggregate) error {
	// The state function takes the state, then the aggregate's arguments.
	args := append([]*types.Type{a.StateType}, a.ArgTypes...)
	state := k.StateOf(a)
	// The message distinguishes an aggregate with this signature, which cannot be a state function.
	if state == nil {
		if k.Aggregate(a.StateFunction, args) != nil {
			return invalidf("State function %s.%s isn't a scalar function", k.Name, FunctionText(a.StateFunction, args))
		}
		return invalidf("State function %s.%s doesn't exist", k.Name, FunctionText(a.StateFunction, args))
	}
	// The result of each call is the first argument of the next one. Frozen and unfrozen values are the same.
	if !state.Returns.Freeze().Equal(a.StateType.Freeze()) {
		return invalidf("State function %s.%s return type must be the same as the first argument type - check "+
			"STYPE, argument and return types",
			k.Name, FunctionText(a.StateFunction, args))
	}
	// Without a final function the state is the result.
	a.Returns = state.Returns
	if a.FinalFunction != "" {
		final := k.FinalOf(a)
		if final == nil {
			// The final function takes only the state.
			if k.Aggregate(a.FinalFunction, args[:1]) != nil {
				return invalidf("Final function %s.%s isn't a scalar function", k.Name,
					FunctionText(a.FinalFunction, args[:1]))
			}
			return invalidf("Final function %s.%s doesn't exist", k.Name, FunctionText(a.FinalFunction, args[:1]))
		}
		a.Returns = final.Returns
	}
	// The state function would never be called, and the state would stay null.
	if a.Initial == nil && !state.CalledOnNull {
		return invalidf("Cannot create aggregate '%s' without INITCOND because state function %s.%s does not accept "+
			"'null' arguments",
			a.Name, k.Name, a.StateFunction)
	}
	return nil
}

// resetResults updates the result types of the aggregates whose final function is f, after f has replaced a function
// with a compatible result. r must be a clone.
func (r *routines) resetResults(f *Function) {
	for signature, a := range r.aggregates {
		if r.FinalOf(a) == f {
			changed := *a
			changed.Returns = f.Returns
			r.aggregates[signature] = &changed
		}
	}
}

// applyDropFunction drops a function or an aggregate. It refuses to drop a function that an aggregate or a mask uses.
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
	// All overloads of the name count as used by a mask.
	if users := s.maskedBy(dropped); len(users) > 0 {
		return nil, invalidf("Function '%s' is still referenced by column masks in tables %s", c.text(),
			strings.Join(users, ", "))
	}
	delete(next.functions, f)
	return s.with(next), nil
}

// find returns the signature of the function or aggregate to be dropped; it is empty if there is none and the statement
// has IF EXISTS. As in Cassandra, a name without argument types must be unique among functions and aggregates together.
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
	// Only used if c.HasArgs.
	signature := FunctionSignature(c.Name, c.Args)
	switch {
	// DROP FUNCTION does not find aggregates, and DROP AGGREGATE does not find functions.
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

// text returns the qualified name, with the types of the arguments if the statement has them.
func (c *DropFunction) text() string {
	if c.HasArgs {
		return c.Keyspace + "." + FunctionText(c.Name, c.Args)
	}
	return c.Keyspace + "." + c.Name
}

// aggregatesOf returns the qualified names of the aggregates that call f, as state or final function.
//
//	f(s, int)   ks.a, if a(int) has SFUNC f and STYPE s
//	f(s)        ks.a, if a has FINALFUNC f and STYPE s
func (k *Keyspace) aggregatesOf(f *Function) []string {
	var names []string
	for _, a := range k.Aggregates() {
		// Pointers identify f: k contains one function for each signature.
		if k.StateOf(a) == f || k.FinalOf(a) == f {
			names = append(names, k.Name+"."+a.Name)
		}
	}
	return names
}

// maskedBy returns the tables, in the keyspace of f, whose columns are masked with f. A mask stores only the name of
// its function, so every overload counts.
func (s *Schema) maskedBy(f *Function) []string {
	var names []string
	k := s.keyspaces[f.Keyspace]
	// Overloads cannot be distinguished here.
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

// functionsUsing returns the functions and the aggregates that use a user-defined type of k, by qualified name.
func (k *Keyspace) functionsUsing(typeName string) []string {
	var names []string
	for _, f := range k.Functions() {
		if f.usesType(typeName) {
			names = append(names, k.Name+"."+f.Name)
		}
	}
	// The message lists functions before aggregates.
	for _, a := range k.Aggregates() {
		if a.usesType(typeName) {
			names = append(names, k.Name+"."+a.Name)
		}
	}
	return names
}

// initialUsing returns the aggregates whose initial state contains a value of a user-defined type of k. INITCOND is
// shown as a literal with field names, so renaming a field would change it.
func (k *Keyspace) initialUsing(typeName string) []string {
	var names []string
	for _, a := range k.Aggregates() {
		if a.Initial != nil && uses(a.StateType, typeName) {
			names = append(names, k.Name+"."+a.Name)
		}
	}
	return names
}

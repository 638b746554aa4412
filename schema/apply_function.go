package schema

import (
	"slices"
	"strings"

	"cqld/schema/refused"
	"cqld/types"
)

// applyCreateFunction adds or replaces a function. A function that replaces another must have a compatible result,
// because aggregates and statements use it.
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
		// The check of IF NOT EXISTS and OR REPLACE comes first, as in Cassandra.
		case old.CalledOnNull != f.CalledOnNull:
			return nil, invalidf("Function '%s' must have %s directive", f.Name, NullDirective(f.CalledOnNull))
		case !compatible(f.Returns, old.Returns):
			return nil, invalidf("Cannot replace function '%s', the new return type %s is not compatible with the "+
				"return type %s of existing function",
				f.Name, DeclaredText(f.Returns), DeclaredText(old.Returns))
		// An equal definition is no change, so that no event is sent.
		case old.equal(f):
			return s, nil
		}
	}
	// A replaced function keeps its signature, so aggregates find the new one by name and argument types.
	next := k.clone()
	next.functions[signature] = f
	// Aggregates that end with f have its result type.
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

// currentFunction returns f with the current versions of the user-defined types of k. f itself is part of the Change
// and stays as it is. It fails if a type no longer exists.
func (k *Keyspace) currentFunction(f *Function) (*Function, error) {
	changed := *f
	changed.ArgTypes = slices.Clone(f.ArgTypes)
	// The list was cloned above: the elements of the Change must stay.
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
// type of a result. Frozen or not does not matter for values.
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

// applyCreateAggregate adds or replaces an aggregate. The type of the result is computed here, from functions that
// exist at this time.
func applyCreateAggregate(s *Schema, c *CreateAggregate) (*Schema, error) {
	a := c.Aggregate
	k := s.keyspaces[a.Keyspace]
	if k == nil {
		// Cassandra has a configuration error here, and not for functions.
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

// currentAggregate returns a with the current versions of the user-defined types of k. a itself stays as it is.
func (k *Keyspace) currentAggregate(a *Aggregate) (*Aggregate, error) {
	changed := *a
	changed.ArgTypes = slices.Clone(a.ArgTypes)
	var err error
	for i, t := range changed.ArgTypes {
		if changed.ArgTypes[i], err = k.current(t); err != nil {
			return nil, err
		}
	}
	// Returns is not set here: it follows from the functions (checkAggregate).
	changed.StateType, err = k.current(a.StateType)
	return &changed, err
}

// checkAggregate checks the functions of an aggregate, and sets the type of its result. a must be a copy. All functions
// are in k, and found by their argument types. For avg(int) with SFUNC f, STYPE s and FINALFUNC g:
//
//	f(s, int)   returns s
//	g(s)        returns the result of the aggregate
func (k *Keyspace) checkAggregate(a *Aggregate) error {
	// The state function has the state first, then the aggregate's arguments.
	args := append([]*types.Type{a.StateType}, a.ArgTypes...)
	state := k.StateOf(a)
	// An aggregate with this signature gets its own message: only scalar functions can be called here.
	if state == nil {
		if k.Aggregate(a.StateFunction, args) != nil {
			return invalidf("State function %s.%s isn't a scalar function", k.Name, FunctionText(a.StateFunction, args))
		}
		return invalidf("State function %s.%s doesn't exist", k.Name, FunctionText(a.StateFunction, args))
	}
	// The result of one call is the first argument of the next one. Frozen or not is no difference between values.
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
			// The final function has the state as its only argument.
			if k.Aggregate(a.FinalFunction, args[:1]) != nil {
				return invalidf("Final function %s.%s isn't a scalar function", k.Name,
					FunctionText(a.FinalFunction, args[:1]))
			}
			return invalidf("Final function %s.%s doesn't exist", k.Name, FunctionText(a.FinalFunction, args[:1]))
		}
		a.Returns = final.Returns
	}
	// The first call would not happen, and the state would stay null.
	if a.Initial == nil && !state.CalledOnNull {
		return invalidf("Cannot create aggregate '%s' without INITCOND because state function %s.%s does not accept "+
			"'null' arguments",
			a.Name, k.Name, a.StateFunction)
	}
	return nil
}

// resetResults sets the results of the aggregates whose final function is f, which has replaced one with another,
// compatible result. r must be a clone: its map is changed.
func (r *routines) resetResults(f *Function) {
	for signature, a := range r.aggregates {
		if r.FinalOf(a) == f {
			changed := *a
			changed.Returns = f.Returns
			r.aggregates[signature] = &changed
		}
	}
}

// applyDropFunction drops a function or an aggregate. A function that an aggregate or a mask uses stays.
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

// find returns the signature of the function or aggregate to be dropped; it is empty if there is none and IF EXISTS
// allows that. Without arguments the name must be unique among functions and aggregates together, as in Cassandra.
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
	// Not used without arguments, for which c.Args is nil.
	signature := FunctionSignature(c.Name, c.Args)
	switch {
	// A kind that does not match is not found: DROP FUNCTION does not drop an aggregate.
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

// maskedBy returns the tables with columns that f masks. It searches the keyspace of f only. A mask records the name of
// its function; any function with that name counts.
func (s *Schema) maskedBy(f *Function) []string {
	var names []string
	k := s.keyspaces[f.Keyspace]
	// A mask names its function without argument types, so overloads cannot be told apart here.
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
	// Functions come first in the message, whatever their names.
	for _, a := range k.Aggregates() {
		if a.usesType(typeName) {
			names = append(names, k.Name+"."+a.Name)
		}
	}
	return names
}

// initialUsing returns the aggregates whose initial state contains a value of a user-defined type of k. INITCOND is
// shown as a literal with the names of fields, so that renaming a field would change it.
func (k *Keyspace) initialUsing(typeName string) []string {
	var names []string
	for _, a := range k.Aggregates() {
		if a.Initial != nil && uses(a.StateType, typeName) {
			names = append(names, k.Name+"."+a.Name)
		}
	}
	return names
}

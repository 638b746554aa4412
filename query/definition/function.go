package definition

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
	"cqld/schema/refused"
	"cqld/types"
	"cqld/udf"
)

// mayDefineFunctions refuses functions in local and virtual system keyspaces. Unlike tables, functions may be defined
// in the replicated system keyspaces.
func mayDefineFunctions(keyspace string) error {
	if schema.IsLocalSystem(keyspace) || schema.IsVirtualSystem(keyspace) {
		return invalid.Errorf("System keyspace '%s' is not user-modifiable", keyspace)
	}
	return nil
}

// both refuses OR REPLACE with IF NOT EXISTS, for functions and aggregates.
func both(orReplace, ifNotExists bool) error {
	if orReplace && ifNotExists {
		return invalid.Errorf("Cannot use both 'OR REPLACE' and 'IF NOT EXISTS' directives")
	}
	return nil
}

// unfrozen refuses frozen<…> around a type that is always frozen in signatures. what begins the message. Tuples are
// exempt: frozen<tuple<…>> is their usual spelling.
func unfrozen(what string, e *cql.TypeExpr) error {
	// Only the outermost frozen is refused; nested types may be written as frozen.
	if e.Frozen && e.Kind != cql.TypeTuple {
		return invalid.Errorf("%s '%s' cannot be frozen; remove frozen<> modifier from '%s'", what, e.String(),
			e.String())
	}
	return nil
}

// argumentTypes resolves the types of arguments in a keyspace, and bounds the number of their parts. It returns nil if
// there are no arguments.
func (d *Definer) argumentTypes(keyspace string, list []cql.TypeExpr) ([]*types.Type, error) {
	var out []*types.Type
	for i := range list {
		t, err := d.typeOf(keyspace, &list[i])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, schema.CheckParts(out...)
}

// anyFrozen refuses arguments whose types are written as frozen<…>.
func anyFrozen(list []cql.TypeExpr) error {
	for i := range list {
		if err := unfrozen("Argument", &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// createFunction defines a function. The body is compiled here, before the change, so that the client gets the
// compiler's error. Errors come in this order: the names and types as written (checkFunction), resolution of the types
// in the keyspace, their size, the body.
func (d *Definer) createFunction(stmt *cql.CreateFunction) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Name)
	if err != nil {
		return refuse(err)
	}
	f := &schema.Function{Keyspace: keyspace, Name: stmt.Name.Name, CalledOnNull: stmt.CalledOnNullInput,
		// Cassandra compares languages without case.
		Language: strings.ToLower(stmt.Language), Body: stmt.Body}
	if err := d.checkFunction(stmt, f); err != nil {
		return refuse(err)
	}
	// ArgNames and ArgTypes are parallel.
	for i := range stmt.Args {
		t, err := d.typeOf(keyspace, &stmt.Args[i].Type)
		if err != nil {
			return refuse(err)
		}
		f.ArgNames, f.ArgTypes = append(f.ArgNames, stmt.Args[i].Name), append(f.ArgTypes, t)
	}
	if f.Returns, err = d.typeOf(keyspace, &stmt.Returns); err == nil {
		err = schema.CheckParts(f.ArgTypes...)
	}
	if err != nil {
		return refuse(err)
	}
	// The client sees the compiler's message. Internal errors, for example a full disk, keep their type.
	if err := d.CheckFunction(f); err != nil {
		var refused *udf.Refused
		if errors.As(err, &refused) {
			err = invalid.Errorf("%s", refused.Msg)
		}
		return refuse(err)
	}
	event := schema.Event{Change: schema.Created, Target: schema.TargetFunction, Keyspace: keyspace, Name: f.Name,
		Args: eventTexts(f.ArgTypes)}
	// The event says what will happen if the schema does not change in between. checkFunction has ensured that the
	// keyspace exists.
	if d.Schema.Keyspace(keyspace).Function(f.Name, f.ArgTypes) != nil {
		event.Change = schema.Updated
	}
	return Definition{Change: &schema.CreateFunction{OrReplace: stmt.OrReplace, IfNotExists: stmt.IfNotExists,
		Function: f}, Event: event}
}

// checkFunction makes the checks that Cassandra makes before it resolves types, in Cassandra's order. d.CheckFunction
// is nil if user-defined functions are disabled.
func (d *Definer) checkFunction(stmt *cql.CreateFunction, f *schema.Function) error {
	if err := mayDefineFunctions(f.Keyspace); err != nil {
		return err
	}
	if err := both(stmt.OrReplace, stmt.IfNotExists); err != nil {
		return err
	}
	if d.CheckFunction == nil {
		return invalid.Errorf("User-defined functions are disabled in cassandra.yaml - set " +
			"user_defined_functions_enabled=true to enable")
	}
	if !slices.Contains(udf.Languages(), f.Language) {
		return invalid.Errorf("Functions in the language %s are not supported: write LANGUAGE lua, wasm or java",
			f.Language)
	}
	names := make([]string, len(stmt.Args))
	for i := range stmt.Args {
		names[i] = stmt.Args[i].Name
	}
	// A quadratic search suffices for a few names.
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return invalid.Errorf("Duplicate argument names for given function %s with argument names [%s]", f.Name,
				strings.Join(names, ", "))
		}
	}
	for i := range stmt.Args {
		if err := unfrozen("Argument", &stmt.Args[i].Type); err != nil {
			return err
		}
	}
	if err := unfrozen("Return type", &stmt.Returns); err != nil {
		return err
	}
	// The types come after this, because they are resolved in the keyspace. A dropped keyspace that is retained has no
	// name, so it is not found either.
	if d.Schema.Keyspace(f.Keyspace) == nil {
		return &refused.NotFound{Keyspace: f.Keyspace}
	}
	return nil
}

// createAggregate defines an aggregate. Apply checks its state and final functions.
func (d *Definer) createAggregate(stmt *cql.CreateAggregate) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Name)
	if err != nil {
		return refuse(err)
	}
	if err := mayDefineFunctions(keyspace); err != nil {
		return refuse(err)
	}
	if err := both(stmt.OrReplace, stmt.IfNotExists); err != nil {
		return refuse(err)
	}
	if err := anyFrozen(stmt.Args); err != nil {
		return refuse(err)
	}
	if err := unfrozen("State type", &stmt.StateType); err != nil {
		return refuse(err)
	}
	// Cassandra's error differs here from the one for functions.
	if d.Schema.Keyspace(keyspace) == nil {
		return refuse(invalid.Configf("Keyspace %s doesn't exist", keyspace))
	}
	// Apply finds both functions in the aggregate's keyspace, by name and argument types, and derives Returns from
	// them.
	a := &schema.Aggregate{Keyspace: keyspace, Name: stmt.Name.Name, StateFunction: stmt.StateFunction,
		FinalFunction: stmt.FinalFunction}
	if a.ArgTypes, err = d.argumentTypes(keyspace, stmt.Args); err != nil {
		return refuse(err)
	}
	if a.StateType, err = d.typeOf(keyspace, &stmt.StateType); err != nil {
		return refuse(err)
	}
	c := &schema.CreateAggregate{OrReplace: stmt.OrReplace, IfNotExists: stmt.IfNotExists, Aggregate: a}
	def := Definition{Change: c, Event: schema.Event{Change: schema.Created, Target: schema.TargetAggregate,
		Keyspace: keyspace,
		Name:     a.Name, Args: eventTexts(a.ArgTypes)}}
	// The event assumes that the schema does not change in between, as in createFunction.
	if d.Schema.Keyspace(keyspace).Aggregate(a.Name, a.ArgTypes) != nil {
		def.Event.Change = schema.Updated
	}
	// A missing function is reported before errors in INITCOND: Apply reports it.
	if d.Schema.Keyspace(keyspace).StateOf(a) == nil || a.FinalFunction != "" &&
		d.Schema.Keyspace(keyspace).FinalOf(a) == nil {
		return def
	}
	if stmt.Initial != nil {
		if a.Initial, err = d.initial(keyspace, a.StateType, stmt.Initial); err != nil {
			return refuse(err)
		}
	}
	return def
}

// initial evaluates INITCOND, and returns its value in wire form. nil means null or no INITCOND: the state starts as
// null. The schema stores the value, so functions in the term are evaluated once.
func (d *Definer) initial(keyspace string, t *types.Type, written cql.Term) ([]byte, error) {
	// Compiling first would report the term's other errors before the marker.
	c := d.compiler(keyspace)
	if term.HasMarker(written) {
		return nil, invalid.Errorf("Invalid INITCOND: bind variables are not supported")
	}
	// Messages contain Cassandra's placeholder names of the receiver. A state is always frozen.
	compiled, err := c.Term(written, term.Spec{Keyspace: keyspace, Table: "--dummy--", Name: "(dummy)",
		Type: t.Freeze()})
	var v wire.Value
	if err == nil {
		v, err = compiled.Eval(&term.Scope{Env: d.Env})
	}
	if err != nil || v.Kind != wire.ValueSet {
		return nil, err
	}
	// An empty value is not null.
	return term.NotNil(v.Bytes), nil
}

// compiler returns a compiler of terms that belong to no table: masks and INITCOND. Unlike the compiler of defaults, it
// resolves user-defined functions.
func (d *Definer) compiler(keyspace string) *term.Compiler {
	return &term.Compiler{Schema: d.Schema, Functions: d.Functions, UserFunctions: d.UserFunctions,
		ResolveType: ResolveType, Keyspace: keyspace}
}

// dropFunction defines DROP FUNCTION and DROP AGGREGATE: c.Aggregate distinguishes them. dropFunction sets the other
// fields of c.
//
//	DROP FUNCTION f        f, if the name is unique among functions and aggregates
//	DROP FUNCTION f(int)   this one
func (d *Definer) dropFunction(name cql.QualifiedName, args []cql.TypeExpr, c *schema.DropFunction) Definition {
	keyspace, err := d.KeyspaceOf(name)
	if err != nil {
		return refuse(err)
	}
	if err := mayDefineFunctions(keyspace); err != nil {
		return refuse(err)
	}
	if err := anyFrozen(args); err != nil {
		return refuse(err)
	}
	c.Keyspace, c.Name = keyspace, name.Name
	// A missing keyspace is reported before an unknown type.
	k := d.Schema.Keyspace(keyspace)
	c.Args, err = d.argumentTypes(keyspace, args)
	switch {
	case k == nil:
		return Definition{Change: c} // Apply reports it, or IF EXISTS allows it
	case err != nil:
		return refuse(err)
	}
	event := schema.Event{Change: schema.Dropped, Target: schema.TargetFunction, Keyspace: keyspace, Name: c.Name}
	// The event names the argument types, which the statement may omit if the name is unique; if it is not, Apply
	// refuses the statement. dropped stays nil without arguments.
	dropped := c.Args
	switch {
	case c.Aggregate:
		event.Target = schema.TargetAggregate
		if named := k.AggregatesNamed(c.Name); !c.HasArgs && len(named) == 1 {
			dropped = named[0].ArgTypes
		}
	case !c.HasArgs:
		if named := k.FunctionsNamed(c.Name); len(named) == 1 {
			dropped = named[0].ArgTypes
		}
	}
	event.Args = schema.ArgumentTexts(dropped)
	return Definition{Change: c, Event: event}
}

// eventTexts returns argument types in the form of events of created and updated functions: as declared, but with the
// keyspace of user-defined types, as in Cassandra.
func eventTexts(args []*types.Type) []string {
	texts := make([]string, len(args))
	for i, t := range args {
		texts[i] = term.HintText(t)
		// HintText writes frozen<…> around a frozen type; events do not.
		if inner, ok := strings.CutPrefix(texts[i], "frozen<"); ok {
			texts[i] = strings.TrimSuffix(inner, ">")
		}
	}
	return texts
}

// functionText returns CREATE FUNCTION. The body is delimited by $$. A body that contains $$, or ends with $, is quoted
// as a string instead.
//
//	CREATE FUNCTION ks.f(a int)
//	    RETURNS NULL ON NULL INPUT
//	    RETURNS int
//	    LANGUAGE lua
//	    AS $$return a$$;
func functionText(f *schema.Function) string {
	args := make([]string, len(f.ArgNames))
	// ArgNames and ArgTypes are parallel.
	for i, name := range f.ArgNames {
		args[i] = types.QuoteName(name) + " " + schema.DeclaredText(f.ArgTypes[i])
	}
	body := "$$" + f.Body + "$$"
	if strings.Contains(f.Body, "$$") || strings.HasSuffix(f.Body, "$") {
		body = cql.QuoteString(f.Body)
	}
	return fmt.Sprintf("CREATE FUNCTION %s(%s)\n    %s\n    RETURNS %s\n    LANGUAGE %s\n    AS %s;",
		qualified(f.Keyspace, f.Name),
		strings.Join(args, ", "), schema.NullDirective(f.CalledOnNull), schema.DeclaredText(f.Returns), f.Language,
		body)
}

// aggregateText returns CREATE AGGREGATE. Function names are not qualified: they are in the aggregate's keyspace.
//
//	CREATE AGGREGATE ks.a(int)
//	    SFUNC f
//	    STYPE int
//	    FINALFUNC g
//	    INITCOND 0;
func aggregateText(a *schema.Aggregate) string {
	text := fmt.Sprintf("CREATE AGGREGATE %s(%s)\n    SFUNC %s\n    STYPE %s", qualified(a.Keyspace, a.Name),
		strings.Join(schema.ArgumentTexts(a.ArgTypes), ", "), types.QuoteName(a.StateFunction),
		schema.DeclaredText(a.StateType))
	if a.FinalFunction != "" {
		text += "\n    FINALFUNC " + types.QuoteName(a.FinalFunction)
	}
	if a.Initial != nil {
		// The stored value is shown as a literal of the state type.
		text += "\n    INITCOND " + string(a.StateType.AppendLiteral(nil, a.Initial))
	}
	return text + ";"
}

// shownSignature returns a name with its argument types, as DESCRIBE shows it. The types distinguish overloads.
func shownSignature(name string, args []*types.Type) string {
	return types.QuoteName(name) + "(" + strings.Join(schema.ArgumentTexts(args), ", ") + ")"
}

// sortedFunctions returns the functions of k as DESCRIBE orders them: by name without case, overloads in the order of
// the keyspace.
func sortedFunctions(k *schema.Keyspace) []*schema.Function {
	list := k.Functions()
	slices.SortStableFunc(list, func(a, b *schema.Function) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return list
}

// sortedAggregates returns the aggregates of k as DESCRIBE orders them. See sortedFunctions.
func sortedAggregates(k *schema.Keyspace) []*schema.Aggregate {
	list := k.Aggregates()
	slices.SortStableFunc(list, func(a, b *schema.Aggregate) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return list
}

// addFunction adds a user-defined function.
func (d *Describer) addFunction(f *schema.Function) {
	d.addElement(f.Keyspace, "function", shownSignature(f.Name, f.ArgTypes), func() string { return functionText(f) })
}

// addAggregate adds a user-defined aggregate.
func (d *Describer) addAggregate(a *schema.Aggregate) {
	d.addElement(a.Keyspace, "aggregate", shownSignature(a.Name, a.ArgTypes), func() string { return aggregateText(a) })
}

// functionsNamed describes all overloads of a function or an aggregate.
func (d *Describer) functionsNamed(k *schema.Keyspace, kind cql.DescribeKind, name string) error {
	if kind == cql.DescribeFunction {
		for _, f := range k.FunctionsNamed(name) {
			d.addFunction(f)
		}
		// count includes rows of earlier pages, so a later page is not an error.
		if d.count == 0 {
			return invalid.Errorf("User defined function '%s' not found in '%s'", name, k.Name)
		}
		return nil
	}
	// Each overload has its own row.
	for _, a := range k.AggregatesNamed(name) {
		d.addAggregate(a)
	}
	if d.count == 0 {
		return invalid.Errorf("User defined aggregate '%s' not found in '%s'", name, k.Name)
	}
	return nil
}

// listFunctions lists the functions or aggregates of a keyspace, by signature.
func (d *Describer) listFunctions(k *schema.Keyspace, kind cql.DescribeKind) {
	if kind == cql.DescribeFunctions {
		for _, f := range sortedFunctions(k) {
			d.addRow(types.QuoteName(k.Name), "function", shownSignature(f.Name, f.ArgTypes))
		}
		return
	}
	for _, a := range sortedAggregates(k) {
		d.addRow(types.QuoteName(k.Name), "aggregate", shownSignature(a.Name, a.ArgTypes))
	}
}

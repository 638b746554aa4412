package generate

import (
	"fmt"
	"strings"
)

// userFunction is a function in Java that Cassandra and cqld can both execute. Cassandra compiles the body with a Java
// compiler, cqld with package udf/java.
type userFunction struct {
	name      string
	arguments []string // types
	returns   string
	body      string
	// If false, the function is not called with a null argument.
	called bool // ON NULL INPUT
}

// bodies returns functions without names. No body contains a question mark, which would be a bind marker.
func bodies() []userFunction {
	// They include division by zero, exceptions, nulls and one that does not compile.
	return []userFunction{
		{arguments: []string{"int"}, returns: "int", body: "return x0 + 1;"},
		{arguments: []string{"int", "int"}, returns: "int", body: "return x0 + x1;"},
		{arguments: []string{"int", "int"}, returns: "int", body: "return x0 / x1;"},
		{arguments: []string{"int", "int"}, returns: "int", body: "return Math.max(x0, x1);"},
		{arguments: []string{"int", "int"}, returns: "int", body: "if (x1 == null) return x0; return x0 + x1;",
			called: true},
		{arguments: []string{"int", "int"}, returns: "int", body: "if (x0 == null) return x1; return x0;",
			called: true},
		{arguments: []string{"int", "text"}, returns: "int", body: "return x0 + x1.length();"},
		{arguments: []string{"int"}, returns: "text", body: "return Integer.toString(x0);"},
		{arguments: []string{"int"}, returns: "bigint",
			body: "long y = x0; for (int i = 0; i < 10; i++) y = y * 3; return y;"},
		{arguments: []string{"text"}, returns: "text", body: "return x0.toUpperCase();"},
		{arguments: []string{"text"}, returns: "text", body: "return x0.substring(1);"},
		{arguments: []string{"text"}, returns: "int", body: "return x0.length();"},
		{arguments: []string{"text", "text"}, returns: "text", body: "return x0 + x1;"},
		{arguments: []string{"text", "int"}, returns: "text", body: "return x0 + x1;"},
		{arguments: []string{"text"}, returns: "text", body: "if (x0 == null) return \"null\"; return x0;",
			called: true},
		{arguments: []string{"bigint"}, returns: "double", body: "return Math.sqrt(x0);"},
		{arguments: []string{"double", "double"}, returns: "double", body: "return x0 * x1 + 0.5;"},
		{arguments: []string{"boolean"}, returns: "boolean", body: "return !x0;"},
		{arguments: []string{"list<int>"}, returns: "int", body: "return x0.size();"},
		{arguments: []string{"set<text>"}, returns: "int", body: "return x0.size();"},
		{arguments: []string{"int"}, returns: "int", body: "return missing;"},
	}
}

// createFunction generates CREATE FUNCTION or CREATE AGGREGATE. One of three is an aggregate once a function exists.
func (o *Objects) createFunction() Step {
	if len(o.functions) > 0 && o.oneIn(3) {
		return o.createAggregate()
	}
	all := bodies()
	f := all[o.r.IntN(len(all))]
	// Few names, so that functions are overloaded and replaced.
	f.name = fmt.Sprintf("%s_f%d", o.table, o.r.IntN(4))
	arguments := make([]string, len(f.arguments))
	for i, a := range f.arguments {
		arguments[i] = fmt.Sprintf("x%d %s", i, a)
	}
	nulls := "RETURNS NULL"
	if f.called {
		nulls = "CALLED"
	}
	t := &text{}
	t.add("CREATE %sFUNCTION %s%s (%s) %s ON NULL INPUT RETURNS %s LANGUAGE java AS '%s'",
		[]string{"", "", "OR REPLACE "}[o.r.IntN(3)],
		[]string{"", "", "IF NOT EXISTS "}[o.r.IntN(3)], f.name, strings.Join(arguments, ", "), nulls, f.returns,
		f.body)
	// Also if it is refused; calls of it are then errors on both servers.
	o.functions = append(o.functions, f)
	return step(t)
}

// createAggregate generates CREATE AGGREGATE with a random function as its state function. It fits if the function's
// first argument has the type of its result. Otherwise the aggregate is refused, as it is when its state function does
// not exist any longer or was refused itself.
func (o *Objects) createAggregate() Step {
	f := o.functions[o.r.IntN(len(o.functions))]
	name := fmt.Sprintf("%s_a%d", o.table, o.r.IntN(3))
	// The first argument of a state function is the state.
	arguments := f.arguments[1:]
	// The arguments of the state function including the state: the signature does not match.
	if o.oneIn(10) {
		arguments = f.arguments
	}
	t := &text{}
	t.add("CREATE %sAGGREGATE %s (%s) SFUNC %s STYPE %s", []string{"", "", "OR REPLACE "}[o.r.IntN(3)], name,
		strings.Join(arguments, ", "), f.name, f.returns)
	if o.oneIn(3) {
		t.add(" FINALFUNC %s", o.functions[o.r.IntN(len(o.functions))].name)
	}
	if o.oneIn(2) {
		initial := "0"
		if f.returns == "text" {
			initial = "'z'"
		}
		t.add(" INITCOND %s", initial)
	}
	o.aggregates = append(o.aggregates, name)
	return step(t)
}

// selectCalls generates a SELECT that calls the functions.
func (o *Objects) selectCalls() Step {
	t := &text{}
	t.add("SELECT ")
	group := o.oneIn(3)
	t.each(1+o.r.IntN(3), ", ", func(int) {
		if len(o.aggregates) > 0 && (group || o.oneIn(3)) {
			// An aggregate gets one column, whatever its arguments are. With another number or type it is refused.
			t.add("%s(%s)", o.aggregates[o.r.IntN(len(o.aggregates))], o.any(o.Columns).Name)
			return
		}
		f := o.functions[o.r.IntN(len(o.functions))]
		t.add("%s(", f.name)
		t.each(len(f.arguments), ", ", func(i int) { t.WriteString(o.argument(f.arguments[i])) })
		t.add(")")
	})
	t.add(" FROM %s", o.table)
	if o.oneIn(3) {
		t.add(" WHERE ")
		t.each(len(o.of(PartitionKey)), " AND ", func(i int) { o.relation(t, o.of(PartitionKey)[i], false) })
	}
	if group {
		t.add(" GROUP BY %s", strings.Join(names(o.of(PartitionKey)), ", "))
	}
	return step(t)
}

// argument returns a column or a constant of the type, sometimes of another one. A constant has a type hint, because a
// literal alone does not determine which overload is called.
func (o *Objects) argument(kind string) string {
	var fitting []Column
	for _, c := range o.Columns {
		if c.Type.Name == kind {
			fitting = append(fitting, c)
		}
	}
	switch {
	case len(fitting) > 0 && !o.oneIn(6):
		return o.any(fitting).Name
	case o.oneIn(6):
		return o.any(o.Columns).Name
	// No literals of collections are generated here.
	case strings.Contains(kind, "<"):
		return "null"
	}
	return "(" + kind + ")" + o.scalar(kind).Literal
}

// dropFunction adds DROP FUNCTION or DROP AGGREGATE, sometimes with argument types that select one of several. Without
// the argument types, the name must be unique: Cassandra refuses to drop one of several overloads.
func (o *Objects) dropFunction(t *text) {
	name, kind := o.table+"_f0", "FUNCTION"
	if len(o.aggregates) > 0 && o.oneIn(2) {
		name, kind = o.aggregates[o.r.IntN(len(o.aggregates))], "AGGREGATE"
	}
	t.add("DROP %s %s%s", kind, ifExists(o.oneIn(4)), name)
	if o.oneIn(3) {
		t.add("(int)")
	}
}

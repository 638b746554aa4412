package selection

import (
	"slices"

	"cqld/cql"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/types"
)

// resolution is the function that a selector calls, or the error. Both are nil for a cast of a value to its own type.
type resolution struct {
	fn  *function.Function
	err error
}

// callOf returns the function that a selector names or represents, and its arguments. Operators and casts are functions
// with reserved names, so that their arguments and types are resolved by the same rules. ok is false for a selector
// that calls nothing.
func callOf(x cql.Selector) (name cql.QualifiedName, args []cql.Selector, ok bool) {
	switch x := x.(type) {
	case *cql.FunctionSelector:
		return x.Name, x.Args, true
	case *cql.ArithmeticSelector:
		return cql.QualifiedName{Name: x.Operator.Function()}, []cql.Selector{x.Left, x.Right}, true
	case *cql.NegateSelector:
		return cql.QualifiedName{Name: "_negate"}, []cql.Selector{x.Value}, true
	case *cql.CastSelector:
		// As in Cassandra: cast_as_int and so on. The target need not be a native type; resolveCall refuses others.
		return cql.QualifiedName{Name: "cast_as_" + x.Type.Name}, []cql.Selector{x.Value}, true
	}
	return name, nil, false
}

// prepare resolves the columns and calls in a selector, innermost first, before types are determined. As in
// Cassandra, unknown names are reported before errors of types. prepare does not change the selection.
func (b *compiler) prepare(x cql.Selector) error {
	if c, ok := x.(*cql.ColumnSelector); ok {
		_, err := b.c.Column(c.Column)
		return err
	}
	if _, _, ok := callOf(x); ok {
		_, err := b.resolve(x)
		return err
	}
	for _, e := range cql.Operands(x) {
		if err := b.prepare(e); err != nil {
			return err
		}
	}
	// The type of the operand determines whether elements can be selected. A trial compiles the operand to find its
	// type.
	if e, ok := x.(*cql.ElementSelector); ok {
		_, err := b.trial().elementsOf(e.Of, "Element")
		return err
	}
	return nil
}

// resolveNames resolves the columns, the functions and the types of hints in a selector. Unlike prepare, it does not
// validate element selections and casts, which Cassandra checks after WHERE. OnlyStatic uses it.
func (b *compiler) resolveNames(x cql.Selector) error {
	_, column := x.(*cql.ColumnSelector)
	_, cast := x.(*cql.CastSelector)
	// prepare resolves casts, because they depend on the type of the value.
	if _, _, call := callOf(x); column || call && !cast {
		return b.prepare(x)
	}
	for _, e := range cql.Operands(x) {
		if err := b.resolveNames(e); err != nil {
			return err
		}
	}
	if h, ok := x.(*cql.TypeHintSelector); ok {
		_, err := b.c.TypeOf(h.Type)
		return err
	}
	return nil
}

// resolve resolves the function that a selector calls. As in Cassandra, only the arguments and not the expected type
// of the result determine the function, so every call is resolved once, at any depth of nesting. The function is nil
// for a cast of a value to its own type.
//
// b.calls caches results, including errors: without it, the trials of typeOf and Match would resolve a nested call
// once for each level.
func (b *compiler) resolve(x cql.Selector) (*function.Function, error) {
	if r, ok := b.calls[x]; ok {
		return r.fn, r.err
	}
	fn, err := b.resolveCall(x)
	b.calls[x] = resolution{fn, err}
	return fn, err
}

// resolveCall is resolve without the cache. It prepares the arguments first, so it returns the error of the innermost
// one.
func (b *compiler) resolveCall(x cql.Selector) (*function.Function, error) {
	name, in, _ := callOf(x)
	// Calls recorded from here on are calls in the arguments.
	args := make([]function.Arg, len(in))
	// The functions in the arguments are recorded after this position.
	before := len(b.c.Called)
	for i, a := range in {
		if err := b.prepare(a); err != nil {
			return nil, err
		}
		args[i] = &selectorArg{b, a}
	}
	if cast, ok := x.(*cql.CastSelector); ok {
		t, err := b.c.TypeOf(cast.Type)
		if err != nil {
			return nil, err
		}
		from := (&selectorArg{b, cast.Value}).exact()
		switch {
		// A literal without a type cannot be cast.
		case from == nil:
			return nil, cannotInfer(cast.Value)
		// There is no function to call: cast compiles the value itself.
		case from.Equal(t):
			return nil, nil
		// No signature has this target, so the resolution below could not name the types.
		case !b.c.Functions.Exists(name.Name):
			return nil, invalid.Errorf("%s cannot be cast to %s", castText(cast.Value), cast.Type.Name)
		}
	}
	// Resolve without a receiver, because the expected type does not matter.
	fn, err := b.c.Resolve(name, args, nil)
	// Calls of user-defined functions are recorded for permissions; the inner ones, recorded first, come after the
	// outer one.
	if err == nil && fn != nil && fn.Keyspace != "" {
		b.c.Outermost(before)
	}
	// countrows is the name of the implementation of COUNT(*), which clients cannot call.
	if err == nil && (fn == nil || name.Name == "countrows") {
		err = invalid.Errorf("Unknown function '%s'", term.FunctionText(name))
	}
	return fn, err
}

// castText returns the text that the error of a cast contains: as in Cassandra, the first column of its operand.
func castText(x cql.Selector) string {
	if column := firstColumn(x); column != nil {
		x = column
	}
	return term.SelectorText(x)
}

// firstColumn returns the first column that a selector names, in the order of the text, or nil.
func firstColumn(x cql.Selector) cql.Selector {
	if _, ok := x.(*cql.ColumnSelector); ok {
		return x
	}
	for _, e := range cql.Operands(x) {
		if column := firstColumn(e); column != nil {
			return column
		}
	}
	return nil
}

// call compiles f(a, b) in a selection. A call of a function that implements
// an operator or a cast, such as system._add, is compiled as that syntax.
func (b *compiler) call(x *cql.FunctionSelector) (selected, error) {
	fn, err := b.resolve(x)
	if err != nil {
		return selected{}, err
	}
	native := cql.QualifiedName{Keyspace: "system", Name: fn.Name}
	// Only native functions are operators; a user-defined one may have the same name.
	if syntax := term.SyntaxOf(native, x.Args); syntax != nil && fn.Keyspace == "" {
		return b.compile(syntax, nil)
	}
	if fn.IsAggregate() && b.inAggregate {
		return selected{}, invalid.Errorf("aggregate functions cannot be used as arguments of aggregate functions")
	}
	// Nested scalar functions are allowed within an aggregate, and aggregates within scalar functions.
	outer := b.inAggregate
	b.inAggregate = outer || fn.IsAggregate()
	// The arguments are compiled for the types of the signature.
	args, names, err := b.arguments(fn, x.Args)
	b.inAggregate = outer
	if err != nil {
		return selected{}, err
	}
	// The name contains the keyspace of the function, even if the client omitted it.
	text := callName(fn.Qualified(), names)
	// The value of an aggregate call is the result of its accumulator.
	if fn.IsAggregate() {
		return b.aggregate(fn, args, text)
	}
	return selected{&callSelector{fn, args}, fn.Returns, text}, nil
}

// arguments compiles arguments with the types that the resolved function expects, and returns their names for the name
// of the call.
func (b *compiler) arguments(fn *function.Function, in []cql.Selector) ([]Selector, []name, error) {
	args := make([]Selector, len(in))
	names := make([]name, len(in))
	for i, a := range in {
		x, err := b.compile(a, fn.Args[i])
		if err != nil {
			return nil, nil, err
		}
		args[i], names[i] = b.argument(x.sel, fn), x.name
	}
	return args, names, nil
}

// argument returns a selector as an argument of a function. If the selector is a bind marker, the error for an unset
// value then names the function.
func (b *compiler) argument(s Selector, fn *function.Function) Selector {
	// Only literals and markers are values of the statement; other selectors are never unset.
	if t, ok := s.(*termSelector); ok {
		t = &termSelector{t: t.t, of: fn}
		b.checkValue(t)
		return t
	}
	return s
}

// aggregate adds an aggregation. Two equal calls are two aggregations. The index in Aggregates links the selector to
// the accumulator of the execution.
func (b *compiler) aggregate(fn *function.Function, args []Selector, text name) (selected, error) {
	b.s.Aggregates = append(b.s.Aggregates, Aggregate{fn, args})
	return selected{&aggregateSelector{len(b.s.Aggregates) - 1}, fn.Returns, text}, nil
}

// operator compiles an arithmetic operation. text returns its name, given the names of the operands. The operands have
// the types that the resolved function expects.
func (b *compiler) operator(x cql.Selector, text func(names []name) name) (selected, error) {
	fn, err := b.resolve(x)
	if err != nil {
		return selected{}, err
	}
	_, in, _ := callOf(x)
	args, names, err := b.arguments(fn, in)
	if err != nil {
		return selected{}, err
	}
	return selected{&callSelector{fn, args}, fn.Returns, text(names)}, nil
}

// cast compiles CAST(x AS t). A cast of a value to its own type is the value.
func (b *compiler) cast(x *cql.CastSelector) (selected, error) {
	fn, err := b.resolve(x)
	if err != nil {
		return selected{}, err
	}
	// fn is nil if the value already has the type of the cast.
	t, err := b.c.TypeOf(x.Type)
	if err != nil || fn == nil {
		v, err := b.compile(x.Value, t)
		return v, err
	}
	v, err := b.compile(x.Value, fn.Args[0])
	if err != nil {
		return selected{}, err
	}
	text := joined(named("cast("), v.name, named(" as "+t.String()+")"))
	return selected{&callSelector{fn, []Selector{b.argument(v.sel, fn)}}, fn.Returns, text}, nil
}

// selectorArg is a selector as an argument of a function to be resolved. It shares the compiler, and with it the
// resolved calls. Its methods do not change the selection.
type selectorArg struct {
	b *compiler
	x cql.Selector
}

// String returns the selector as written.
func (a *selectorArg) String() string { return term.SelectorText(a.x) }

// IsMarker reports whether the selector is a bind marker.
func (a *selectorArg) IsMarker() bool {
	t, ok := a.x.(*cql.TermSelector)
	return ok && term.HasMarker(t.Term)
}

// Elements returns the number of elements of a list literal, or -1 for other selectors.
func (a *selectorArg) Elements() int {
	if l, ok := a.x.(*cql.ListSelector); ok {
		return len(l.Elements)
	}
	return -1
}

// Type returns the type of the selector without an expected type, or nil if that is unknown. It may be a preference,
// such as int for a number, which Match refines.
func (a *selectorArg) Type() *types.Type {
	if t, ok := a.x.(*cql.TermSelector); ok {
		return a.b.c.Arg(t.Term).Type()
	}
	return a.typeOf((*selectorArg).Type)
}

// exact returns the selector's type if only one is possible, or nil, for example for literals. Such literals are
// rejected in a selection unless their context determines the type.
func (a *selectorArg) exact() *types.Type {
	if _, ok := a.x.(*cql.TermSelector); ok {
		return nil
	}
	return a.typeOf((*selectorArg).exact)
}

// typeOf returns the type of a selector whose elements have the types returned by of. The first element with a known
// type decides, because elements of one literal must have the same type.
func (a *selectorArg) typeOf(of func(*selectorArg) *types.Type) *types.Type {
	// Other elements with an unknown type, such as markers, are compiled with this type.
	elementType := func(in []cql.Selector) (first *types.Type) {
		for _, e := range in {
			if t := of(&selectorArg{a.b, e}); t != nil {
				return t
			}
		}
		return nil
	}
	switch x := a.x.(type) {
	case *cql.ListSelector:
		// The type of a literal is frozen, because literals are compared as frozen.
		if t := elementType(x.Elements); t != nil {
			return types.NewList(t, false)
		}
		return nil
	case *cql.SetSelector:
		if t := elementType(x.Elements); t != nil {
			return types.NewSet(t, false)
		}
		return nil
	// The braces alone do not decide between a map and a user-defined type.
	case *cql.MapSelector, *cql.UDTSelector:
		return nil
	case *cql.TupleSelector:
		return a.tupleType(x, of)
	}
	if _, _, ok := callOf(a.x); ok {
		// After an error the type is unknown; compiling the call reports the error.
		if fn, err := a.b.resolve(a.x); err != nil || fn != nil {
			return returns(fn)
		}
	}
	// Compile in a trial to find the type, which discards added aggregates and markers.
	s, err := a.b.trial().compile(a.x, nil)
	if err != nil {
		return nil
	}
	if _, hinted := a.x.(*cql.TypeHintSelector); hinted {
		return s.typ.Freeze() // as in Cassandra, where the column of the result is not frozen
	}
	return s.typ
}

// returns returns the type of the result of a function, nil if the function is unknown.
func returns(fn *function.Function) *types.Type {
	if fn == nil {
		return nil
	}
	return fn.Returns
}

// tupleType returns the type of a tuple. One element may be a tuple or a selector in parentheses, so its type is
// unknown.
func (a *selectorArg) tupleType(x *cql.TupleSelector, of func(*selectorArg) *types.Type) *types.Type {
	if len(x.Elements) == 1 {
		return nil
	}
	elems := make([]*types.Type, len(x.Elements))
	// A tuple has a type only if all of its elements have one.
	for i, e := range x.Elements {
		if elems[i] = of(&selectorArg{a.b, e}); elems[i] == nil {
			return nil
		}
	}
	return types.NewTuple(elems...)
}

// Match returns how well the selector fits a type. Overloads are ranked by the matches of their arguments.
func (a *selectorArg) Match(to *types.Type) function.Match {
	switch x := a.x.(type) {
	// Literals and markers are terms, and match as in other clauses.
	case *cql.TermSelector:
		return a.b.c.Arg(x.Term).Match(to)
	case *cql.ListSelector:
		// Compiling the literal checks the number of elements of a vector.
		if to.Kind() != types.List && to.Kind() != types.Vector {
			return function.NoMatch
		}
		return a.matchAll(x.Elements, to.Elems()[0])
	case *cql.SetSelector:
		if to.Kind() != types.Set {
			// {} is a set in the grammar, and may also be an empty map.
			if to.Kind() == types.Map && len(x.Elements) == 0 {
				return function.WeakMatch
			}
			return function.NoMatch
		}
		return a.matchAll(x.Elements, to.Elems()[0])
	case *cql.TupleSelector:
		// The target is not a tuple, so these are parentheses around one element.
		if len(x.Elements) == 1 && to.Kind() != types.Tuple {
			return (&selectorArg{a.b, x.Elements[0]}).Match(to)
		}
		return a.matchTrial(to)
	case *cql.MapSelector, *cql.UDTSelector:
		return a.matchTrial(to)
	}
	// Columns, calls, fields and elements have one type.
	t := a.exact()
	if t == nil {
		return function.NoMatch
	}
	if _, hinted := a.x.(*cql.TypeHintSelector); hinted {
		// A hint states the exact type, so no implicit conversion applies.
		return function.AssignableAsIs(t, to)
	}
	return function.Assignable(t, to)
}

// fits reports whether the parts of a literal fit the parts of a type. It excludes most types cheaply before matchTrial
// compiles the literal.
func (a *selectorArg) fits(to *types.Type) bool {
	// i is -1 for a field that the type does not have.
	fits := func(x cql.Selector, i int) bool {
		return i >= 0 && i < len(to.Elems()) && (&selectorArg{a.b, x}).Match(to.Elems()[i]) != function.NoMatch
	}
	switch x := a.x.(type) {
	// Fewer elements than the type has are allowed.
	case *cql.TupleSelector:
		for i, e := range x.Elements {
			if !fits(e, i) {
				return false
			}
		}
	case *cql.MapSelector:
		return !slices.ContainsFunc(x.Entries, func(e cql.MapSelectorEntry) bool {
			return !fits(e.Key, 0) || !fits(e.Value, 1)
		})
	case *cql.UDTSelector:
		for _, f := range x.Fields {
			if to.Kind() == types.UDT && !fits(f.Value, to.FieldIndex(f.Name)) ||
				// {a: x} may be a map whose keys are columns.
				to.Kind() == types.Map && !(fits(&cql.ColumnSelector{Column: f.Name}, 0) && fits(f.Value, 1)) {
				return false
			}
		}
	}
	return true
}

// matchTrial returns WeakMatch if the literal compiles with a type. The match is never exact, because literals are
// converted.
func (a *selectorArg) matchTrial(to *types.Type) function.Match {
	if !a.fits(to) {
		return function.NoMatch
	}
	if _, err := a.b.trial().compile(a.x, to); err != nil {
		return function.NoMatch
	}
	return function.WeakMatch
}

// matchAll returns the match of the worst element. A list without elements fits weakly.
func (a *selectorArg) matchAll(in []cql.Selector, to *types.Type) function.Match {
	best := function.WeakMatch
	for i, e := range in {
		m := (&selectorArg{a.b, e}).Match(to)
		if i == 0 {
			best = m
		}
		best = min(best, m)
	}
	return best
}

// trial returns a compiler whose aggregates and bind markers are discarded. It shares the caches of resolved calls
// and hints, which do not depend on aggregates and markers.
func (b *compiler) trial() *compiler {
	// Copy the compiler; its caches are maps and stay shared.
	c := *b.c
	c.Markers = nil
	return &compiler{c: &c, s: &Selection{}, calls: b.calls, hints: b.hints}
}

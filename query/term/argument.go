package term

import (
	"strconv"

	"cqld/cql"
	"cqld/query/function"
	"cqld/types"
)

// itoa is short for use in names.
func itoa(i int) string { return strconv.Itoa(i) }

// termArg is a term as an argument of a call that is being resolved. It is made for the resolution of a call, and holds
// no result.
type termArg struct {
	c *Compiler
	t cql.Term
}

// Arg returns t as an argument of a call that is being resolved. Its methods use the compiler's cache of resolved
// calls, so it must not be used after the compilation.
func (c *Compiler) Arg(t cql.Term) function.Arg { return &termArg{c, t} }

// args returns the arguments of a call.
func (c *Compiler) args(terms []cql.Term) []function.Arg {
	args := make([]function.Arg, len(terms))
	for i, t := range terms {
		args[i] = &termArg{c, t}
	}
	return args
}

// String returns the term as written.
func (a *termArg) String() string { return Text(a.t) }

// IsMarker reports whether the term is a bind marker, without parentheses or a type hint.
func (a *termArg) IsMarker() bool {
	_, ok := a.t.(*cql.BindMarker)
	return ok
}

// trialArg is an argument of a call within an argument. The caller discards errors of its resolution, so it has no
// text.
type trialArg struct{ termArg }

// String returns nothing.
func (a *trialArg) String() string { return "" }

// Elements returns the number of elements of a list literal, or -1 for other terms.
func (a *termArg) Elements() int {
	if l, ok := a.t.(*cql.ListLiteral); ok {
		return len(l.Elements)
	}
	return -1
}

// Type returns the type that the term has without other information, or nil if it is unknown. A collection without a
// hint is unknown: its elements may fit several types.
func (a *termArg) Type() *types.Type {
	switch t := a.t.(type) {
	case *cql.TypeHint:
		// An unknown type is reported when the hint is compiled.
		if typ, err := a.c.TypeOf(t.Type); err == nil {
			return typ
		}
		return nil
	// null matches every type, so its type is unknown.
	case *cql.Literal:
		if t.Kind == cql.LiteralNull {
			return nil
		}
		return literalKind(t.Kind).Preferred(t.Text)
	}
	// The receiver is unknown here, so only the arguments determine the function.
	if fn := a.c.resolveArg(a.t, nil); fn != nil {
		return fn.Returns
	}
	return nil
}

// Match returns how well the term matches a type. Its only side effects are the cache of resolved calls and
// c.mismatch, which records that a list literal was matched with a type other than list or vector. For example, 1
// matches int exactly, bigint weakly, and text not at all.
func (a *termArg) Match(to *types.Type) function.Match {
	switch t := a.t.(type) {
	case *cql.BindMarker:
		// A marker gets the type of the parameter, so it matches any type weakly.
		return function.WeakMatch
	case *cql.Literal:
		return matchLiteral(t, to)
	case *cql.TypeHint:
		typ, err := a.c.TypeOf(t.Type)
		if err != nil {
			return function.NoMatch
		}
		// A hint states the exact type, so frozen and multi-cell types differ.
		return function.AssignableAsIs(typ, to)
	case *cql.ListLiteral:
		if to.Kind() != types.List && to.Kind() != types.Vector {
			// Keep the first mismatch.
			if a.c.mismatch == nil {
				a.c.mismatch = unexpectedReceiver(to)
			}
			return function.NoMatch
		}
		return a.matchAll(t.Elements, to.Elems()[0])
	case *cql.SetLiteral:
		// {} is a set in the grammar, and may be an empty map.
		if to.Kind() == types.Map && len(t.Elements) == 0 {
			return function.WeakMatch
		}
		if to.Kind() != types.Set {
			return function.NoMatch
		}
		return a.matchAll(t.Elements, to.Elems()[0])
	case *cql.MapLiteral:
		return a.matchMap(t, to)
	case *cql.UDTLiteral:
		return a.matchUDT(t, to)
	case *cql.TupleLiteral:
		return a.matchTuple(t, to)
	}
	// A call that cannot be resolved matches every type. Compiling it then fails with a more specific error than the
	// outer call would report.
	fn := a.c.resolveArg(a.t, to)
	if fn == nil {
		return function.WeakMatch
	}
	return function.Assignable(fn.Returns, to)
}

// matchLiteral returns the match of a constant: exact for the type that Cassandra prefers for it, weak for other types
// that it can have.
func matchLiteral(t *cql.Literal, to *types.Type) function.Match {
	if t.Kind == cql.LiteralNull {
		return function.WeakMatch
	}
	k := literalKind(t.Kind)
	switch {
	// For a custom type, compiling the value checks it.
	case to.Kind() == types.Custom:
		return function.WeakMatch
	case !k.Assigns(to):
		return function.NoMatch
	case k.Preferred(t.Text).Equal(to):
		return function.ExactMatch
	}
	return function.WeakMatch
}

// matchAll returns the worst match of the terms; an empty literal is a weak match.
func (a *termArg) matchAll(terms []cql.Term, to *types.Type) function.Match {
	if len(terms) == 0 {
		return function.WeakMatch
	}
	best := function.ExactMatch
	for _, t := range terms {
		best = min(best, (&termArg{a.c, t}).Match(to))
	}
	return best
}

// matchMap returns the worst match of the keys and values. An empty map is a set literal in the grammar.
func (a *termArg) matchMap(t *cql.MapLiteral, to *types.Type) function.Match {
	if to.Kind() != types.Map {
		return function.NoMatch
	}
	best := function.ExactMatch
	for _, e := range t.Entries {
		best = min(best, (&termArg{a.c, e.Key}).Match(to.Elems()[0]), (&termArg{a.c, e.Value}).Match(to.Elems()[1]))
	}
	return best
}

// matchUDT returns how well the named fields match. Unknown names do not matter here: udtLiteral reports them.
func (a *termArg) matchUDT(t *cql.UDTLiteral, to *types.Type) function.Match {
	if to.Kind() != types.UDT {
		return function.NoMatch
	}
	for _, f := range t.Fields {
		for i, name := range to.FieldNames() {
			// Each field must match, but the literal as a whole is never an exact match.
			if name == f.Name && (&termArg{a.c, f.Value}).Match(to.Elems()[i]) == function.NoMatch {
				return function.NoMatch
			}
		}
	}
	return function.WeakMatch
}

// matchTuple returns how well a tuple matches. It may have fewer elements than the type, and one element in parentheses
// is the element itself.
func (a *termArg) matchTuple(t *cql.TupleLiteral, to *types.Type) function.Match {
	if to.Kind() != types.Tuple && to.Kind() != types.UDT {
		if len(t.Elements) == 1 {
			return (&termArg{a.c, t.Elements[0]}).Match(to)
		}
		return function.NoMatch
	}
	// Missing elements are null.
	if len(t.Elements) > len(to.Elems()) {
		return function.NoMatch
	}
	for i, e := range t.Elements {
		if (&termArg{a.c, e}).Match(to.Elems()[i]) == function.NoMatch {
			return function.NoMatch
		}
	}
	return function.WeakMatch
}

// HasMarker reports whether the term contains a bind marker. It follows arguments of calls and operands, but not the
// definitions of functions.
func HasMarker(t cql.Term) bool {
	switch t := t.(type) {
	case *cql.BindMarker:
		return true
	case *cql.TypeHint:
		return HasMarker(t.Value)
	case *cql.ListLiteral:
		return anyMarker(t.Elements)
	case *cql.SetLiteral:
		return anyMarker(t.Elements)
	case *cql.TupleLiteral:
		return anyMarker(t.Elements)
	case *cql.MapLiteral:
		for _, e := range t.Entries {
			if HasMarker(e.Key) || HasMarker(e.Value) {
				return true
			}
		}
		return false
	case *cql.UDTLiteral:
		for _, f := range t.Fields {
			if HasMarker(f.Value) {
				return true
			}
		}
		return false
	}
	// Literals have no arguments.
	_, args, _ := callOf(t)
	return anyMarker(args)
}

// anyMarker reports whether one of the terms contains a bind marker.
func anyMarker(terms []cql.Term) bool {
	for _, t := range terms {
		if HasMarker(t) {
			return true
		}
	}
	return false
}

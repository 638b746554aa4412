package query

import (
	"strings"

	"cqld/cql"
	"cqld/cql/types"
	"cqld/query/function"
	"cqld/query/term"
)

// call compiles f(a, b) in a selection.
func (b *selectorCompiler) call(name cql.QualifiedName, in []cql.Selector, want *types.Type) (selected, error) {
	for _, x := range in {
		if err := b.checkColumns(x); err != nil {
			return selected{}, err
		}
	}
	fn, err := b.resolve(name, in, want)
	if err != nil {
		return selected{}, err
	}
	if fn == nil || name.Name == "countrows" {
		return selected{}, invalidf("Unknown function '%s'", term.FunctionText(name))
	}
	if fn.IsAggregate() && b.inAggregate {
		return selected{}, invalidf("aggregate functions cannot be used as arguments of aggregate functions")
	}
	outer := b.inAggregate
	b.inAggregate = outer || fn.IsAggregate()
	args, names, err := b.arguments(fn, in)
	b.inAggregate = outer
	if err != nil {
		return selected{}, err
	}
	text := "system." + fn.Name + "(" + strings.Join(names, ", ") + ")"
	if fn.IsAggregate() {
		return b.aggregate(fn, args, text)
	}
	return selected{&callSelector{fn, args}, fn.Returns, text}, nil
}

// checkColumns refuses a selector that names a column there is not, before its type is asked.
func (b *selectorCompiler) checkColumns(x cql.Selector) (err error) {
	walkColumns(x, func(name string) {
		if _, e := b.c.column(name); e != nil && err == nil {
			err = e
		}
	})
	return err
}

func (b *selectorCompiler) arguments(fn *function.Function, in []cql.Selector) ([]selector, []string, error) {
	args := make([]selector, len(in))
	names := make([]string, len(in))
	for i, a := range in {
		x, err := b.compile(a, fn.Args[i])
		if err != nil {
			return nil, nil, err
		}
		args[i], names[i] = x.sel, x.name
	}
	return args, names, nil
}

// aggregate notes an aggregation.
func (b *selectorCompiler) aggregate(fn *function.Function, args []selector, name string) (selected, error) {
	b.s.aggregates = append(b.s.aggregates, aggregate{fn, args})
	return selected{&aggregateSelector{len(b.s.aggregates) - 1}, fn.Returns, name}, nil
}

func (b *selectorCompiler) operator(name string, in []cql.Selector, want *types.Type, text string) (selected, error) {
	fn, err := b.resolve(cql.QualifiedName{Name: name}, in, want)
	if err != nil {
		return selected{}, err
	}
	args, names, err := b.arguments(fn, in)
	if err != nil {
		return selected{}, err
	}
	switch {
	case len(names) == 1:
		text = "-" + names[0]
	case len(names) == 2:
		op := text // the operator stands between the two as written
		for _, o := range []cql.Arithmetic{cql.Plus, cql.Minus, cql.Multiply, cql.Divide, cql.Modulo} {
			if o.Function() == name {
				op = string(rune(o))
			}
		}
		text = names[0] + " " + op + " " + names[1]
	}
	return selected{&callSelector{fn, args}, fn.Returns, text}, nil
}

func (b *selectorCompiler) cast(x *cql.CastSelector) (selected, error) {
	t, err := b.c.TypeOf(x.Type)
	if err != nil {
		return selected{}, err
	}
	arg := &selectorArg{b, x.Value}
	if from := arg.Type(); from != nil && from.Equal(t) {
		return b.compile(x.Value, t)
	}
	name := "cast_as_" + term.CastName(x.Type)
	if !b.c.p.functions.Exists(name) {
		return selected{}, invalidf("%s cannot be cast to %s", term.SelectorText(x.Value), t)
	}
	fn, err := b.resolve(cql.QualifiedName{Name: name}, []cql.Selector{x.Value}, nil)
	if err != nil {
		return selected{}, err
	}
	v, err := b.compile(x.Value, fn.Args[0])
	if err != nil {
		return selected{}, err
	}
	return selected{&callSelector{fn, []selector{v.sel}}, fn.Returns, "cast(" + v.name + " as " + t.String() + ")"}, nil
}

func (b *selectorCompiler) resolve(name cql.QualifiedName, in []cql.Selector, want *types.Type) (*function.Function, error) {
	args := make([]function.Arg, len(in))
	for i, s := range in {
		args[i] = &selectorArg{b, s}
	}
	return b.c.Resolve(name, args, want)
}

// selectorArg is a selector whose fit to types is asked.
type selectorArg struct {
	b *selectorCompiler
	x cql.Selector
}

// String is the selector as written.
func (a *selectorArg) String() string { return term.SelectorText(a.x) }

// IsMarker says whether the selector is a bind marker.
func (a *selectorArg) IsMarker() bool {
	t, ok := a.x.(*cql.TermSelector)
	return ok && term.HasMarker(t.Term)
}

// Type is the selector's type when it can only be one.
func (a *selectorArg) Type() *types.Type {
	switch x := a.x.(type) {
	case *cql.TermSelector:
		return nil
	case *cql.ListSelector:
		return a.partsType(x.Elements, types.NewList)
	case *cql.SetSelector:
		return a.partsType(x.Elements, types.NewSet)
	case *cql.MapSelector:
		for _, e := range x.Entries {
			k, v := (&selectorArg{a.b, e.Key}).Type(), (&selectorArg{a.b, e.Value}).Type()
			if k != nil && v != nil {
				return types.NewMap(k, v, false)
			}
		}
		return nil
	case *cql.UDTSelector:
		return nil
	case *cql.TupleSelector:
		if len(x.Elements) == 1 {
			return (&selectorArg{a.b, x.Elements[0]}).Type()
		}
		elems := make([]*types.Type, len(x.Elements))
		for i, e := range x.Elements {
			if elems[i] = (&selectorArg{a.b, e}).Type(); elems[i] == nil {
				return nil
			}
		}
		return types.NewTuple(elems...)
	}
	// Compiling tells the type; aggregates and markers noted on the way are forgotten.
	trial := &selectorCompiler{c: a.b.c.trial(), s: &selection{}}
	s, err := trial.compile(a.x, nil)
	if err != nil {
		return nil
	}
	return s.typ
}

func (a *selectorArg) partsType(in []cql.Selector, of func(*types.Type, bool) *types.Type) *types.Type {
	for _, e := range in {
		if t := (&selectorArg{a.b, e}).Type(); t != nil {
			return of(t, false)
		}
	}
	return nil
}

// Match says how well the selector fits a type.
func (a *selectorArg) Match(to *types.Type) function.Match {
	switch x := a.x.(type) {
	case *cql.TermSelector:
		return a.b.c.Arg(x.Term).Match(to)
	case *cql.ListSelector:
		if to.Kind() != types.List && to.Kind() != types.Vector {
			return function.NoMatch
		}
		return a.matchAll(x.Elements, to.Elems()[0])
	case *cql.SetSelector:
		if to.Kind() != types.Set {
			if to.Kind() == types.Map && len(x.Elements) == 0 {
				return function.WeakMatch
			}
			return function.NoMatch
		}
		return a.matchAll(x.Elements, to.Elems()[0])
	case *cql.MapSelector, *cql.UDTSelector, *cql.TupleSelector:
		trial := &selectorCompiler{c: a.b.c.trial(), s: &selection{}}
		if _, err := trial.compile(a.x, to); err != nil {
			return function.NoMatch
		}
		return function.WeakMatch
	}
	if t := a.Type(); t != nil {
		return function.Assignable(t, to)
	}
	// A call may depend on the type that is expected.
	trial := &selectorCompiler{c: a.b.c.trial(), s: &selection{}}
	s, err := trial.compile(a.x, to)
	if err != nil {
		return function.NoMatch
	}
	return function.Assignable(s.typ, to)
}

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

// trial is a compiler whose bind markers are forgotten.
func (c *compiler) trial() *compiler {
	t := *c
	t.Markers = nil
	return &t
}

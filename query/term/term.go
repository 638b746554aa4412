package term

import (
	"errors"

	"cqld/internal/wire"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/types"
)

// Scope is the environment of an evaluation: the bound values, time and identifiers. It is used by one goroutine for
// one execution. The zero value evaluates constants. Each execution has its own Scope, and terms have no other state.
type Scope struct {
	// Values are the bound values by index of the marker. Their bytes may be part of the request's frame.
	Values []wire.Value
	// Env provides time and identifiers to functions; nil if only constants are evaluated.
	Env  function.Env
	JSON []wire.Value // values of INSERT … JSON, by column
}

// grower is an Env with the memory of a request. Compilation and tests have an Env without it.
type grower interface{ Grow(n int) error }

// scopeFree is how many bytes a statement may evaluate without a reservation, which avoids the bookkeeping for small
// values.
const scopeFree = 8 << 10

// Grow reserves n bytes of the memory of the request, if the scope has one. Small values need no reservation. The
// memory is returned when the request ends. An error means that the request must fail.
func (s *Scope) Grow(n int) error {
	if g, ok := s.Env.(grower); ok && n > scopeFree {
		return g.Grow(n)
	}
	return nil
}

// Term is a compiled cql.Term, which can be evaluated with the values of the bind markers. It is immutable, so prepared
// statements share it between concurrent executions.
type Term interface {
	// Eval returns the value in s; its bytes may be shared with a bound value. Bytes must not be changed, and are valid
	// as long as the bound values. Null and unset are kinds of wire.Value, not errors: the user of a value decides
	// whether they are allowed.
	Eval(s *Scope) (wire.Value, error)
}

// constTerm is a constant. Its value is encoded and validated.
type constTerm struct{ v wire.Value }

// Constant returns a term with a value in wire form. The caller must not change v afterwards. v must not be null.
func Constant(v []byte) Term { return &constTerm{wire.Value{Kind: wire.ValueSet, Bytes: v}} }

// Eval implements Term.
func (t *constTerm) Eval(*Scope) (wire.Value, error) { return t.v, nil }

// MarkerTerm is a bind marker. A marker for a whole IN list has a list type.
type MarkerTerm struct {
	Index int // index of the value in Scope.Values
	Type  *types.Type
}

// Eval returns the value bound to the marker, checked against its type and in canonical form: clients may send the
// elements of sets and the entries of maps in any order and repeatedly. Null and unset are returned as they are.
func (t *MarkerTerm) Eval(s *Scope) (wire.Value, error) {
	// The caller has checked the number of values.
	v := s.Values[t.Index]
	if v.Kind == wire.ValueSet {
		if err := t.Type.Validate(v.Bytes); err != nil {
			return wire.Value{}, &invalid.Error{Msg: err.Error()}
		}
		v.Bytes = t.Type.Normalize(v.Bytes)
	}
	return v, nil
}

// callTerm is a call of a native function. Null arguments are passed to the function. Unset arguments are errors.
// Operators and casts are callTerms, too.
type callTerm struct {
	fn   *function.Function
	args []Term
}

// Eval implements Term.
func (t *callTerm) Eval(s *Scope) (wire.Value, error) {
	args := make([][]byte, len(t.args))
	for i, a := range t.args {
		v, err := a.Eval(s)
		if err != nil {
			return wire.Value{}, err
		}
		// An unset argument would mean that the argument is omitted, which is invalid.
		if v.Kind == wire.ValueUnset {
			return wire.Value{}, invalid.Errorf("Invalid unset value for argument in call to function %s", t.fn.Name)
		}
		if v.Kind == wire.ValueSet {
			args[i] = NotNil(v.Bytes)
		}
	}
	b, err := t.fn.Eval(s.Env, args)
	if err != nil {
		return wire.Value{}, err
	}
	return wire.BytesValue(b), nil
}

// NotNil returns an empty slice for nil, so that an empty value is not null. The wire form distinguishes null from an
// empty value, but slices of length 0 may be nil.
func NotNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// partsKind is the kind of value that a partsTerm builds. The order matters: from partsFields on, null parts are
// allowed.
type partsKind uint8

const (
	partsList partsKind = iota + 1
	partsSet
	partsMap // alternating keys and values
	partsVector
	partsFields // of a user-defined type
	partsTuple
)

// partsBytesMax bounds the values that statements build from parts, in bytes. Thousands of parts may use the same
// named marker, so a value may be larger than the request. Larger values cannot be stored.
const partsBytesMax = 16 << 20

// partsTerm is a list, set, map, vector, tuple or user-defined type of terms. Parts are in the order of the type's
// serialization. For example, [1, ?] in a vector of two floats has a constant and a marker as parts.
type partsTerm struct {
	kind  partsKind
	typ   *types.Type
	parts []Term // nil for an omitted field of a user-defined type
}

// Eval implements Term. Collections must not contain null, tuples and user-defined types may. AppendParts sorts sets
// and maps and removes duplicates.
func (t *partsTerm) Eval(s *Scope) (wire.Value, error) {
	values := make([][]byte, len(t.parts))
	n := 0
	for i, p := range t.parts {
		if p == nil {
			continue
		}
		v, err := p.Eval(s)
		if err != nil {
			return wire.Value{}, err
		}
		// Check the size before the copy and after each part, because parts may be built in the same way.
		if n += len(v.Bytes); n > partsBytesMax {
			return wire.Value{}, invalid.Errorf("A value of type %s has more than %d bytes", t.typ, partsBytesMax)
		}
		switch {
		case v.Kind == wire.ValueSet:
			values[i] = NotNil(v.Bytes)
		case t.kind >= partsFields && v.Kind == wire.ValueUnset:
			return wire.Value{}, t.unsetField(i)
		// A null field stays nil in values.
		case t.kind >= partsFields:
		// An unset element has the same message.
		case t.kind == partsVector:
			return wire.Value{}, invalid.Errorf("null is not supported inside vectors")
		case v.Kind == wire.ValueUnset:
			return wire.Value{}, invalid.Errorf("unset value is not supported inside collections")
		default:
			return wire.Value{}, invalid.Errorf("null is not supported inside collections")
		}
	}
	// Errors are values that are too long, or of another length than the type has.
	b, err := t.typ.AppendParts(nil, values)
	if err != nil {
		return wire.Value{}, &invalid.Error{Msg: err.Error()}
	}
	return wire.BytesValue(NotNil(b)), nil
}

// unsetField returns the error for an unset field.
func (t *partsTerm) unsetField(i int) error {
	if t.kind == partsFields {
		return invalid.Errorf("Invalid unset value for field '%s' of user defined type %s", t.typ.FieldNames()[i],
			t.typ.UDTName())
	}
	return invalid.Errorf("Invalid unset value for tuple field number %d", i)
}

// isConst reports whether a term is constant.
func isConst(t Term) bool {
	_, ok := t.(*constTerm)
	return ok
}

// fold evaluates a term if all of its parts are constant. The value is then computed once, at compilation, and errors
// in it are errors of PREPARE. nil parts are omitted fields. Functions that need an Env are volatile and not folded.
// For example, 1 + 2 becomes the constant 3, and now() stays a call.
func fold(t Term, parts []Term) (Term, error) {
	for _, p := range parts {
		if p != nil && !isConst(p) {
			return t, nil
		}
	}
	// Neither values nor an Env are needed.
	v, err := t.Eval(&Scope{})
	// Text such as "now" in JSON is the time of the execution.
	if errors.Is(err, function.ErrNeedsEnv) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	return &constTerm{v}, nil
}

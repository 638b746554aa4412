package function

import (
	"fmt"
	"strings"

	"cqld/types"
)

// Env is what functions may ask of the outside: the time and new identifiers.
type Env interface {
	// NowMillis is the wall clock's time, the same during one statement.
	NowMillis() int64
	// TimeUUID is a new time-based UUID.
	TimeUUID() [16]byte
	// RandomUUID is a new random UUID.
	RandomUUID() [16]byte
}

// Match says how well an argument fits a type.
type Match uint8

// The matches, from worst to best.
const (
	NoMatch Match = iota
	WeakMatch
	ExactMatch
)

// Arg is an argument of a call that is being resolved.
type Arg interface {
	// Match says how well the argument fits t.
	Match(t *types.Type) Match
	// Type is the type that the argument has when nothing else says which: the preferred type of a
	// literal, nil of a bind marker or null.
	Type() *types.Type
	// Elements is the number of elements of a list literal, which may be a vector too; -1 otherwise.
	Elements() int
	// String is the argument as written.
	String() string
	// IsMarker reports whether the argument is or contains a bind marker.
	IsMarker() bool
}

// Function is one signature of a native function. Scalar functions have Eval, aggregates have New.
type Function struct {
	Name    string
	Args    []*types.Type
	Returns *types.Type
	// Eval computes the value; a nil argument or result is null.
	Eval func(env Env, args [][]byte) ([]byte, error)
	// New begins an aggregation.
	New func() Accumulator
	// Volatile functions may answer differently at every call.
	Volatile bool
}

// Accumulator is one aggregation under way.
type Accumulator interface {
	Add(args [][]byte) error
	Result() ([]byte, error)
	Reset()
}

// IsAggregate reports whether f is an aggregate.
func (f *Function) IsAggregate() bool { return f.New != nil }

// String returns the signature as Cassandra writes it.
func (f *Function) String() string {
	args := make([]string, len(f.Args))
	for i, a := range f.Args {
		args[i] = TypeText(a)
	}
	name := f.Name
	if name[0] == '_' {
		name = `"` + name + `"`
	}
	return fmt.Sprintf("system.%s : (%s) -> %s", name, strings.Join(args, ", "), TypeText(f.Returns))
}

// TypeText returns a type as error messages about functions show it.
func TypeText(t *types.Type) string { return t.String() }

// Invalid is a call, or what stands around one, that is well formed and means nothing; package query
// answers with it (0x2200). Its text is Cassandra's.
type Invalid struct{ Msg string }

// Error returns the message.
func (e *Invalid) Error() string { return e.Msg }

func invalidf(format string, args ...any) error {
	return &Invalid{Msg: fmt.Sprintf(format, args...)}
}

// Failure is a call that failed while it was executed (protocol code 0x1400).
type Failure struct {
	Keyspace, Function string
	Args               []string
	Msg                string
}

// Error returns the message.
func (e *Failure) Error() string { return e.Msg }

// Assignable says how well a value of type from fits a receiver of type to. Whether it is frozen
// makes no difference to a value.
func Assignable(from, to *types.Type) Match {
	from, to = from.Freeze(), to.Freeze()
	if from.Equal(to) {
		return ExactMatch
	}
	if compatible(from, to) {
		return WeakMatch
	}
	return NoMatch
}

// compatible reports whether every value of type from is also one of type to, byte for byte.
func compatible(from, to *types.Type) bool {
	f := from.Kind()
	switch to.Kind() {
	case types.Blob:
		return true
	case types.Text:
		return f == types.Ascii || f == types.Text
	case types.Varint:
		return f == types.Varint || f == types.Int || f == types.Bigint
	case types.Bigint:
		return f == types.Bigint || f == types.Timestamp
	case types.Timestamp:
		return f == types.Timestamp || f == types.Bigint
	case types.UUID:
		return f == types.UUID || f == types.Timeuuid
	case types.List, types.Set:
		return f == to.Kind() &&
			compatibleOrEqual(from.Elems()[0], to.Elems()[0])
	case types.Map:
		return f == types.Map && from.Elems()[0].Equal(to.Elems()[0]) &&
			compatibleOrEqual(from.Elems()[1], to.Elems()[1])
	case types.Tuple:
		if f != types.Tuple || len(from.Elems()) > len(to.Elems()) {
			return false
		}
		for i, e := range from.Elems() {
			if !compatibleOrEqual(e, to.Elems()[i]) {
				return false
			}
		}
		return true
	}
	return false
}

func compatibleOrEqual(from, to *types.Type) bool { return from.Equal(to) || compatible(from, to) }

package function

import (
	"errors"
	"fmt"
	"strings"

	"cqld/types"
)

// Env provides the time and new identifiers to functions. One Env belongs to one statement. Functions must take time
// and randomness from it only, so that simulations are reproducible. A function that is not Volatile gets a nil Env
// when a call of constants is compiled, and returns ErrNeedsEnv if its value depends on the execution.
type Env interface {
	// NowMillis returns the wall-clock time in ms, which is the same during one statement.
	NowMillis() int64
	// TimeUUID returns a new time-based UUID.
	TimeUUID() [16]byte
	// RandomUUID returns a new random UUID.
	RandomUUID() [16]byte
	// Warn adds a warning for the client.
	Warn(text string)
}

// ErrNeedsEnv is the error of a call whose value depends on the execution although its arguments are constant. The
// compiler then does not fold the call.
var ErrNeedsEnv = errors.New("the function depends on the execution")

// Match is how well an argument matches a type. A signature matches as well as its worst argument, so the order of
// the values matters, and one NoMatch excludes the signature.
type Match uint8

// The matches, from worst to best.
const (
	// NoMatch means that the argument cannot be converted to the type.
	NoMatch Match = iota
	// WeakMatch means that the argument can be converted, or that its type is unknown.
	WeakMatch
	// ExactMatch means that the argument has the type, or is a literal that prefers it.
	ExactMatch
)

// Arg is an argument of a call that is being resolved. Terms and selectors implement it. Its methods may be called many
// times for one call, once for each signature.
type Arg interface {
	// Match returns how well the argument matches t.
	Match(t *types.Type) Match
	// Type returns the type that the argument has without other information: the preferred type of a literal, nil for a
	// bind marker or null.
	Type() *types.Type
	// Elements returns the number of elements of a list literal, which may also be a vector; -1 for other arguments.
	Elements() int
	// String returns the argument as written.
	String() string
	// IsMarker reports whether the argument is or contains a bind marker.
	IsMarker() bool
}

// Eval computes the value of a scalar function; a nil argument or result is null. It must not change args or keep them
// after it returns. The result may share their memory. The number of arguments equals the number of types, because the
// call was resolved. An error ends the statement.
type Eval func(env Env, args [][]byte) ([]byte, error)

// Function is one signature of a function. Scalar functions have Eval, aggregates have New. It is immutable and shared
// by statements. Exactly one of Eval and New is set.
type Function struct {
	Keyspace string // keyspace of a user-defined function; empty for a native function
	// Name does not contain the keyspace. Native names are in lower case; those that begin with _ implement
	// operators.
	Name string
	// Args are the types of the parameters, to which arguments are converted.
	Args []*types.Type
	// Returns is the type of the result.
	Returns *types.Type
	// Eval computes the value; a nil argument or result is null.
	Eval Eval
	// New starts an aggregation of a statement.
	New func(env Env) Accumulator
	// Volatile functions may return a different value for every call. They are not evaluated when a statement is
	// prepared.
	Volatile bool
	// Decodes means that a call decodes its argument, which takes as much memory as JSONBytes returns.
	Decodes bool
	// Signatures identify the user-defined functions that a call executes: the function and, for an aggregate, those
	// that it calls.
	Signatures []string
}

// Accumulator is an aggregation in progress. An Accumulator is used by one goroutine. A statement with GROUP BY calls
// Add for the rows of a group, Result once, and then Reset.
type Accumulator interface {
	// Add adds the arguments for one row. It must copy what it keeps.
	Add(args [][]byte) error
	// Result returns the value for the rows that were added; nil means null. It is valid until the next call of Add or
	// Reset.
	Result() ([]byte, error)
	// Reset returns to the state after New, for the next group.
	Reset()
	// Size returns the size of the state in bytes, without its constant part.
	Size() int
}

// IsAggregate reports whether f is an aggregate.
func (f *Function) IsAggregate() bool { return f.New != nil }

// String returns the signature as Cassandra writes it. It quotes the names of operator functions, the only ones that
// need quotes. For example: system."_add" : (int, bigint) -> bigint.
func (f *Function) String() string {
	args := make([]string, len(f.Args))
	for i, a := range f.Args {
		args[i] = TypeText(a)
	}
	name := f.Name
	if name[0] == '_' {
		name = `"` + name + `"`
	}
	return fmt.Sprintf("%s.%s : (%s) -> %s", f.keyspace(), name, strings.Join(args, ", "), TypeText(f.Returns))
}

// keyspace returns the keyspace for messages; native functions are in system.
func (f *Function) keyspace() string {
	if f.Keyspace == "" {
		return "system"
	}
	return f.Keyspace
}

// Qualified returns the name with the keyspace.
func (f *Function) Qualified() string { return f.keyspace() + "." + f.Name }

// TypeText returns a type as error messages about functions show it.
func TypeText(t *types.Type) string { return t.String() }

// Assignable returns how well a value of type from matches a receiver of type to. It ignores whether the types are
// frozen. It is Cassandra's testAssignment for values whose type is known.
func Assignable(from, to *types.Type) Match { return AssignableAsIs(from.Freeze(), to.Freeze()) }

// AssignableAsIs is Assignable, except that frozen and non-frozen types do not match.
func AssignableAsIs(from, to *types.Type) Match {
	// Frozen and multi-cell types differ here.
	if from.Equal(to) {
		return ExactMatch
	}
	if compatible(from, to) {
		return WeakMatch
	}
	return NoMatch
}

// compatible reports whether every value of type from is also a value of type to, with the same bytes. It corresponds
// to isValueCompatibleWith in Cassandra. For example, a bigint may be passed as a timestamp without a conversion. An
// int cannot be passed as a bigint, because it has 4 bytes.
func compatible(from, to *types.Type) bool {
	f := from.Kind()
	switch to.Kind() {
	// The bytes of an int or bigint are a varint, too: two's complement, big-endian.
	case types.Varint:
		return f == types.Varint || f == types.Int || f == types.Bigint || f == types.Timestamp
	case types.Date:
		return f == types.Date || f == types.Int
	case types.Time:
		return f == types.Time || f == types.Bigint
	case types.Bigint:
		return f == types.Bigint || f == types.Timestamp
	case types.Timestamp:
		return f == types.Timestamp || f == types.Bigint
	case types.UUID:
		return f == types.UUID || f == types.Timeuuid
	// Every value is a sequence of bytes.
	case types.Blob:
		return true
	// A list does not order its elements by value, unlike a set, so compatible elements suffice.
	case types.List:
		return sameForm(from, to) && compatibleValues(from, to, 0)
	case types.Map: // the order of keys is part of the value
		return sameForm(from, to) && comparable(from.Elems()[0], to.Elems()[0]) && compatibleValues(from, to, 1)
	case types.Tuple:
		return (f == types.Tuple || f == types.UDT) && allOf(from.Elems(), to.Elems(), compatibleOrEqual)
	}
	return comparable(from, to)
}

// comparable reports whether every value of type from is also a value of type to, and both types order them alike. It
// corresponds to isCompatibleWith in Cassandra, and applies to keys, whose order matters. For example, int and varint
// are not comparable, although an int is a varint by its bytes.
func comparable(from, to *types.Type) bool {
	f := from.Kind()
	switch to.Kind() {
	case types.Blob:
		return f == types.Blob || f == types.Ascii || f == types.Text
	case types.Text:
		return f == types.Ascii || f == types.Text
	case types.List, types.Set, types.Map:
		return sameForm(from, to) && allOf(from.Elems(), to.Elems(), comparable)
	case types.Tuple:
		return (f == types.Tuple || f == types.UDT) && allOf(from.Elems(), to.Elems(), comparable)
	case types.UDT: // the names of the fields do not matter
		return sameForm(from, to) && from.UDTKeyspace() == to.UDTKeyspace() &&
			allOf(from.Elems(), to.Elems(), comparable)
	}
	return from.Equal(to)
}

// compatibleValues reports whether the values of two list or map types are compatible. i is the index of the value
// type in Elems. For multi-cell types, Cassandra also requires that both value types have the same fixed length, or
// none.
func compatibleValues(from, to *types.Type, i int) bool {
	a, b := from.Elems()[i], to.Elems()[i]
	return a.Equal(b) || compatible(a, b) && (!to.MultiCell() || (a.FixedLength() != 0) == (b.FixedLength() != 0) &&
		!a.Kind().IsCollection())
}

// sameForm reports whether both types are of one kind, and both or neither are frozen.
func sameForm(from, to *types.Type) bool {
	return from.Kind() == to.Kind() && from.MultiCell() == to.MultiCell()
}

// allOf reports whether a condition holds for each part of from and the same part of to. from may have fewer parts. A
// tuple may be shorter, since missing fields are null.
func allOf(from, to []*types.Type, condition func(from, to *types.Type) bool) bool {
	if len(from) > len(to) {
		return false
	}
	for i := range from {
		if !condition(from[i], to[i]) {
			return false
		}
	}
	return true
}

// compatibleOrEqual is compatible, with a shortcut for equal types.
func compatibleOrEqual(from, to *types.Type) bool { return from.Equal(to) || compatible(from, to) }

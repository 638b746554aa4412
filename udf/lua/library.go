package lua

import (
	"fmt"
	"math/big"

	"github.com/cockroachdb/apd/v3"

	"cqld/udf/value"
)

// The library contains the functions of Lua that are deterministic and do not access the host.
//
//	global    type tostring tonumber pairs ipairs next select error assert pcall unpack integer decimal
//	string    len lower upper sub rep reverse byte char format find match gmatch gsub
//	math      abs ceil floor max min sqrt exp sin cos atan log pow fmod idiv tointeger type huge pi …
//	table     insert remove concat sort unpack pack
//
// integer and decimal are additions that create exact numbers, like varint and decimal in CQL.

// library contains the functions that scripts can call. It is immutable. Programs may share one. Its maps are read only
// after newLibrary.
type library struct {
	globals map[string]value.Value
	// The functions of string, also as methods of strings: s:upper().
	strings *namespace
}

// namespace is a table of the library, as string or math. Scripts cannot change it. It is not a *value.Table, so
// setIndex refuses it. Reading a member is one lookup by name.
type namespace struct{ members map[string]value.Value }

// native is the implementation of a function of the library. It panics with *value.Fault or *value.Exceeded. It must
// count work beyond one step before doing it.
type native func(fr *frame, a args) []value.Value

// args are the arguments of a call, with the name of the function for messages. Its methods count arguments from 0, and
// messages from 1. A method that converts an argument ends the call with Lua's message if it cannot.
type args struct {
	name string
	// They may be the caller's own list, so they are not modified.
	values []value.Value
	// Conversions of arguments are counted, too.
	m *value.Meter
}

// isGlobal reports whether name is a global name of the library. Its list must equal the names of newLibrary.
func isGlobal(name string) bool {
	// A list and not the map of a library: the compiler has none yet.
	switch name {
	case "string", "math", "table", "pairs", "ipairs", "next", "select", "type", "tostring", "tonumber", "error",
		"assert", "pcall",
		"unpack", "integer", "decimal":
		return true
	}
	return false
}

// global returns a global of the library. It never returns nil, because the compiler has checked the name.
func (fr *frame) global(name string) value.Value { return fr.library.globals[name] }

// newLibrary returns the library. Each call of one of its functions is a step. The names must agree with isGlobal, by
// which the compiler resolves them. A Program has its own, so programs share no state even if one could change it.
func newLibrary() *library {
	l := &library{globals: map[string]value.Value{}}
	add := func(in map[string]value.Value, prefix string, functions map[string]native) {
		for name, f := range functions {
			// One object for each function, so that == on a function is true for itself.
			in[name] = &builtin{prefix + name, func(fr *frame, vs []value.Value) []value.Value {
				fr.m.Step()
				return f(fr, args{prefix + name, vs, fr.m})
			}}
		}
	}
	add(l.globals, "", baseFunctions())
	// Kept apart, because methods of strings are looked up in it.
	l.strings = &namespace{map[string]value.Value{}}
	add(l.strings.members, "string.", stringFunctions())
	numbers := &namespace{mathConstants()}
	add(numbers.members, "math.", mathFunctions())
	tables := &namespace{map[string]value.Value{}}
	add(tables.members, "table.", tableFunctions())
	l.globals["string"], l.globals["math"], l.globals["table"] = l.strings, numbers, tables
	return l
}

// one returns the results of a function with one result. Most functions have one.
func one(v value.Value) []value.Value { return []value.Value{v} }

// at returns an argument, from 0; nil if it is absent. A surplus argument is ignored.
func (a args) at(i int) value.Value { return at(a.values, i) }

// bad ends the call with Lua's message for a wrong argument. It does not return.
func (a args) bad(i int, format string, rest ...any) {
	value.Failf("bad argument #%d to '%s' (%s)", i+1, a.name, fmt.Sprintf(format, rest...))
}

// expected ends the call with the message for an argument of a wrong type. A missing argument is shown as nil.
func (a args) expected(i int, what string) {
	a.bad(i, "%s expected, got %s", what, typeName(a.at(i)))
}

// table returns a table argument. The table is the argument itself, not a copy: changes are visible to the caller.
func (a args) table(i int) *value.Table {
	// A namespace of the library is no table for functions.
	t, ok := a.at(i).(*value.Table)
	if !ok {
		a.expected(i, "table")
	}
	return t
}

// string returns a string argument. Numbers are converted. Booleans are not, unlike with tostring.
func (a args) string(i int) string {
	// The text of a number is counted.
	s, ok := stringOf(a.m, a.at(i))
	if !ok {
		a.expected(i, "string")
	}
	return s
}

// number returns a number argument. Strings that contain numbers are converted. Its kind is kept: a string "1.0" is a
// float.
func (a args) number(i int) value.Value {
	// A string is parsed at each call.
	n, ok := number(a.m, a.at(i))
	if !ok {
		a.expected(i, "number")
	}
	return n
}

// integer returns an integer argument, or the default value if it is absent. A float without a fraction is an integer.
// Only positions and counts of the library use it.
func (a args) integer(i int, absent ...int64) int64 {
	// An explicit nil counts as absent.
	if a.at(i) == nil && len(absent) > 0 {
		return absent[0]
	}
	// A string that contains a number is converted first.
	n, ok := toInteger(a.m, a.number(i))
	if !ok {
		a.bad(i, "number has no integer representation")
	}
	return n
}

// toInteger returns a number without a fraction as an integer of 64 bits. The second result is false for fractions,
// infinities, NaN and numbers out of range.
func toInteger(m *value.Meter, v value.Value) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		// The conversion is undefined out of range, so the result is compared with v, and the range is checked.
		n := int64(v)
		return n, float64(n) == v && v < 1<<63 && v >= -1<<63
	case *big.Int:
		// The number is valid only if it fits.
		return v.Int64(), v.IsInt64()
	case *apd.Decimal:
		return value.DecimalInt64(m, v)
	}
	return 0, false
}

// baseFunctions returns the global functions. print, load, require, setmetatable, rawget and collectgarbage are not
// among them.
func baseFunctions() map[string]native {
	return map[string]native{
		"type": func(_ *frame, a args) []value.Value { return one(typeName(a.at(0))) },
		"tostring": func(fr *frame, a args) []value.Value {
			return one(toText(fr.m, a.at(0)))
		},
		"tonumber": func(fr *frame, a args) []value.Value {
			// Anything that is no number gives nil, not an error.
			if n, ok := number(fr.m, a.at(0)); ok {
				return one(n)
			}
			return one(nil)
		},
		"pairs": func(_ *frame, a args) []value.Value {
			// pairs keeps the position in the table, so that a step needs no search for the key.
			t, at := a.table(0), 0
			// The generic for passes table and key, which this function does not need.
			step := &builtin{"next", func(fr *frame, _ []value.Value) []value.Value {
				// The traversal has ended; another call of the step has no result.
				if at < 0 {
					return nil
				}
				k, v, next := t.Next(fr.m, at)
				at = next
				return []value.Value{k, v}
			}}
			return []value.Value{step, t, nil}
		},
		// ipairs ends before the first nil.
		"ipairs": func(_ *frame, a args) []value.Value {
			step := &builtin{"ipairs", func(fr *frame, vs []value.Value) []value.Value {
				// The state is in the arguments, so the step itself needs none.
				n, _ := at(vs, 1).(int64)
				t, _ := at(vs, 0).(*value.Table)
				if t == nil || t.Get(fr.m, n+1) == nil {
					return nil
				}
				return []value.Value{n + 1, t.Get(fr.m, n+1)}
			}}
			return []value.Value{step, a.table(0), int64(0)}
		},
		"next": func(fr *frame, a args) []value.Value {
			t := a.table(0)
			// nil is the position before the first key.
			at, ok := t.After(fr.m, a.at(1))
			if !ok {
				value.Failf("invalid key to 'next'")
			}
			k, v, _ := t.Next(fr.m, at)
			return []value.Value{k, v}
		},
		"select": selectArgs,
		"error": func(fr *frame, a args) []value.Value {
			// Do not use Failf, because the message is text from the script, not a format.
			panic(&value.Fault{Msg: toText(fr.m, a.at(0))})
		},
		"assert": func(fr *frame, a args) []value.Value {
			if !truth(a.at(0)) {
				if a.at(1) != nil {
					panic(&value.Fault{Msg: toText(fr.m, a.at(1))})
				}
				// Lua's text for an assert without a message.
				value.Failf("assertion failed!")
			}
			return a.values
		},
		"pcall":   protected,
		"unpack":  unpack,
		"integer": exactInteger,
		"decimal": exactDecimal,
	}
}

// selectArgs implements select('#', …) and select(n, …). select(-1, …) returns the last argument.
func selectArgs(_ *frame, a args) []value.Value {
	if a.at(0) == "#" {
		return one(int64(len(a.values) - 1))
	}
	n := a.integer(0)
	// Negative positions count from the last argument.
	if n < 0 {
		n += int64(len(a.values))
	}
	if n < 1 {
		a.bad(0, "index out of range")
	}
	// The arguments after the first one, from position n on: values[0] is n itself.
	return a.values[min(n, int64(len(a.values))):]
}

// protected implements pcall: it calls a function and returns true and the results, or false and the message. An
// exceeded bound ends the whole call. Nested pcalls count against callsMax.
func protected(fr *frame, a args) (result []value.Value) {
	// The frames of the failed call have ended without restoring it.
	depth := fr.depth
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *value.Fault:
			fr.depth = depth
			result = []value.Value{false, e.Msg}
		// Do not recover *value.Exceeded, because a script must not continue beyond its bounds.
		default:
			panic(e)
		}
	}()
	// Within the protection: pcall() fails as a call within it would.
	if len(a.values) == 0 {
		a.bad(0, "value expected")
	}
	return append([]value.Value{true}, fr.call(a.values[0], a.values[1:], 0)...)
}

// unpack implements unpack(t, i, j).
func unpack(fr *frame, a args) []value.Value {
	t := a.table(0)
	// The whole table by default.
	from, to := a.integer(1, 1), a.integer(2, int64(t.Len()))
	if from > to {
		return nil
	}
	const most = 1000
	// One less than the number of results. The difference of two int64 may overflow, but not as an uint64.
	n := uint64(to) - uint64(from)
	if n >= most {
		value.Failf("too many results to unpack")
	}
	// The list of results.
	fr.m.Alloc(16 * int64(n+1))
	// The loop counts results: a loop over keys would not end after the largest integer.
	out := make([]value.Value, n+1)
	for i := range out {
		// Keys without a value give nil.
		out[i] = t.Get(fr.m, from+int64(i))
	}
	return out
}

// exactInteger implements integer(x): a whole number without limit, as varint is. Arithmetic with it is exact, see
// package value. Scripts use it for numbers beyond 64 bits.
func exactInteger(fr *frame, a args) []value.Value {
	// The number itself; ParseInteger counts its digits.
	fr.m.Alloc(64)
	// Not by number(): that would round to a float.
	if s, ok := a.at(0).(string); ok {
		if n, ok := value.ParseInteger(fr.m, s); ok {
			return one(n)
		}
		a.bad(0, "%s is not an integer", value.Describe(s))
	}
	switch n := a.number(0).(type) {
	case *big.Int:
		return one(n)
	// A whole number of 64 bits. Larger floats and decimals are refused.
	case float64, int64, *apd.Decimal:
		if i, ok := toInteger(fr.m, n); ok {
			return one(big.NewInt(i))
		}
	}
	a.bad(0, "number has no integer representation")
	return nil
}

// exactDecimal implements decimal(x): an exact decimal number. A float is converted by its text, so decimal(0.1) is
// 0.1.
// Its text may have an exponent, and at most 1,000 bytes.
func exactDecimal(fr *frame, a args) []value.Value {
	// A number is formatted first, which counts its digits.
	s := a.string(0)
	d, ok := value.ParseDecimal(fr.m, s)
	if !ok {
		a.bad(0, "%s is not a decimal number", value.Describe(s))
	}
	return one(d)
}

// toText returns a value as tostring shows it. Tables and functions have no addresses, which would differ between
// calls. It never fails. Numbers are shown as concatenation shows them.
func toText(m *value.Meter, v value.Value) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case bool:
		if v {
			return "true"
		}
		return "false"
	case *value.Table, *namespace:
		return "table"
	case *closure, *builtin:
		return "function"
	}
	// The value is a string or a number.
	s, _ := stringOf(m, v)
	return s
}

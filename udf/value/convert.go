package value

import (
	"fmt"
	"math"
	"math/big"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"

	"cqld/internal/wire"
	"cqld/types"
)

// FromCQL returns a CQL value in wire form as the value of a script; null and empty numbers are nil.
//
//	text, ascii, blob           string
//	boolean                     bool
//	tinyint … bigint, counter   int64
//	varint, decimal             *big.Int, *apd.Decimal
//	float, double               float64
//	timestamp, time, date       int64: milliseconds since 1970, nanoseconds since midnight, days since 1970
//	uuid, timeuuid, inet        string: their text
//	duration                    table with months, days, nanoseconds
//	list, vector, tuple         table with the keys 1, 2, …
//	set                         table with the elements as keys, and true as values
//	map                         table
//	user-defined type           table with the fields by name
//
// b is valid for the type: it comes from a table or was validated. The result shares no memory with it. It is
// recursive to the depth of the type. It counts memory before it allocates, except for the short text of a uuid or an
// address.
func FromCQL(m *Meter, t *types.Type, b []byte) Value {
	if b == nil {
		return nil
	}
	switch t.Kind() {
	case types.Ascii, types.Text, types.Blob, types.Custom:
		m.Alloc(int64(len(b)) + 16)
		return string(b)
	case types.List, types.Set, types.Map, types.Tuple, types.UDT, types.Vector:
		return tableFrom(m, t, b)
	}
	// Most types allow an empty value besides null. Scripts have no such value, so it becomes nil, except for text
	// and collections.
	if len(b) == 0 {
		return nil
	}
	m.Alloc(int64(len(b)) + 16)
	switch t.Kind() {
	case types.Boolean:
		return b[0] != 0
	case types.Varint:
		if x, ok := t.Big(b); ok {
			return x
		}
	case types.Decimal:
		if d, ok := t.Decimal(b); ok {
			return d
		}
	case types.Float, types.Double:
		f, _ := t.Float64(b)
		return f
	case types.Date:
		return wireDate(b)
	case types.Timestamp, types.Time:
		// Both are 8 bytes, and scripts see the same number.
		c := wire.NewCursor(b)
		return c.Int64()
	case types.UUID, types.Timeuuid, types.Inet:
		return string(t.AppendText(nil, b))
	case types.Duration:
		d, _ := types.DecodeDuration(b)
		// All three parts are present, also if they are 0.
		out := NewTable(m)
		out.Set(m, "months", int64(d.Months))
		out.Set(m, "days", int64(d.Days))
		out.Set(m, "nanoseconds", d.Nanos)
		return out
	// The integers that are left: tinyint to bigint, and counter.
	default:
		if n, ok := t.Int64(b); ok {
			return n
		}
	}
	return nil
}

// wireDate returns the days since 1970-01-01. It inverts the shift that makes unsigned bytes sort like dates.
func wireDate(b []byte) Value {
	c := wire.NewCursor(b)
	// On the wire, 1970-01-01 is 2^31.
	return int64(uint32(c.Int32())) - 1<<31
}

// tableFrom returns a collection, a tuple or a user-defined type as a table. The elements are counted as they are
// converted. The order of the keys is the order on the wire, which for sets and maps is the order of their type.
func tableFrom(m *Meter, t *types.Type, b []byte) Value {
	out := NewTable(m)
	var key Value
	for p := t.Parts(b); p.Next(); {
		// The depth of the recursion is the depth of the type.
		v := FromCQL(m, p.Type(), p.Bytes())
		switch t.Kind() {
		case types.Map:
			// Keys and values alternate.
			if p.Index()%2 == 0 {
				key = v
				continue
			}
			out.Set(m, key, v)
		case types.Set:
			out.Set(m, v, true)
		case types.UDT:
			// A null field is an absent key, because setting nil adds none.
			out.Set(m, t.FieldNames()[p.Index()], v)
		default:
			// A tuple may have null fields: their keys are absent.
			if v != nil {
				out.Set(m, int64(p.Index()+1), v)
			}
		}
	}
	return out
}

// ToCQL returns a value of a script in the wire form of a CQL type; nil is null. It panics with a Fault if the type has
// no such value. Numbers are converted if they keep their value: a float without a fraction is an int. The result is
// valid for the type: it is validated by the encoders, or checked here. It shares no memory with v.
func ToCQL(m *Meter, t *types.Type, v Value) []byte {
	if v == nil {
		return nil
	}
	switch t.Kind() {
	case types.Ascii, types.Text, types.Blob, types.Custom:
		return textTo(m, t, v)
	case types.Boolean:
		if b, ok := v.(bool); ok {
			return map[bool][]byte{false: {0}, true: {1}}[b]
		}
	case types.Varint:
		allocNumber(m, v)
		if n := wholeNumber(m, v); n != nil {
			return types.AppendVarint(nil, n)
		}
	case types.Decimal:
		allocNumber(m, v)
		return decimalTo(m, t, v)
	case types.Float, types.Double:
		// Rounded to the nearest float, also from exact numbers.
		if IsNumber(v) {
			return t.AppendFloat64(nil, ToFloat(m, v))
		}
	case types.UUID, types.Timeuuid, types.Inet:
		if s, ok := v.(string); ok {
			// The text is parsed as in CQL. One that is not valid is a mismatch.
			if b, err := t.FromText(s); err == nil {
				return b
			}
		}
	case types.List, types.Set, types.Map, types.Tuple, types.UDT, types.Vector, types.Duration:
		if table, ok := v.(*Table); ok {
			return tableTo(m, t, table)
		}
	// tinyint to bigint, counter, date, time and timestamp.
	default:
		return integerTo(m, t, v)
	}
	mismatch(t, v)
	return nil
}

// mismatch panics: the type has no value v. It does not return.
func mismatch(t *types.Type, v Value) {
	Failf("the result %s is not a value of type %s", Describe(v), t)
}

// Describe returns a short text of a value for messages. It is safe for any value of a script, and takes bounded time.
func Describe(v Value) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case string:
		const shown = 40
		// A message must not contain a whole result.
		if len(v) > shown {
			v = v[:shown] + "…"
		}
		return fmt.Sprintf("%q", v)
	case bool:
		return fmt.Sprint(v)
	case *Table:
		return "(a table)"
	}
	// Formatting a large number takes quadratic time, which is too expensive for a message.
	const most = 1000
	switch {
	case IsNumber(v) && numberBytes(v) > most:
		return "(a number of many digits)"
	case IsNumber(v):
		return numberText(v)
	}
	return "(a function)"
}

// textTo returns a string as text, ascii or blob. Numbers are not converted. Text must be UTF-8 and ascii seven bits; a
// blob may have any bytes.
func textTo(m *Meter, t *types.Type, v Value) []byte {
	// Strings of scripts are bytes, which may be anything.
	s, ok := v.(string)
	if !ok {
		mismatch(t, v)
	}
	m.Alloc(int64(len(s)))
	if t.Kind() == types.Text && !utf8.ValidString(s) {
		Failf("the result %s is not valid UTF-8", Describe(v))
	}
	if t.Kind() == types.Ascii {
		for i := range len(s) {
			if s[i] > 127 {
				Failf("the result %s is not ASCII", Describe(v))
			}
		}
	}
	// Not nil for "", which is an empty text and not null.
	return append([]byte{}, s...)
}

// wholeNumber returns a number without a fraction as an integer, or nil. The result may be v itself, which is not
// modified. A decimal beyond the digits of arithmetic has none here: writing it out would take too long.
func wholeNumber(m *Meter, v Value) *big.Int {
	switch v := v.(type) {
	case int64:
		return big.NewInt(v)
	case *big.Int:
		return v
	case float64:
		// False for NaN, which equals nothing.
		if v == math.Trunc(v) && !math.IsInf(v, 0) {
			n, _ := big.NewFloat(v).Int(nil)
			return n
		}
	case *apd.Decimal:
		m.Convert(v)
		// Such a number cannot be computed here either.
		if digitsOf(v) > digitsMax {
			return nil
		}
		var whole apd.Decimal
		// 1e1000000 is a short decimal and a long integer.
		if v.Exponent >= 0 && v.Exponent > exponentMax {
			return nil
		}
		if _, err := apd.BaseContext.WithPrecision(digitsMax).Quantize(&whole, v, 0); err == nil && whole.Cmp(v) == 0 {
			n := whole.Coeff.MathBigInt()
			if whole.Negative {
				n.Neg(n)
			}
			return n
		}
	}
	return nil
}

// allocNumber counts the memory for the encoding of an exact number: its bytes and an intermediate number. The factor
// covers the number, its bytes and what the conversion needs between.
func allocNumber(m *Meter, v Value) {
	const copies = 3
	// Other values have a small encoding, or none.
	switch v.(type) {
	case *big.Int, *apd.Decimal:
		m.Alloc(copies * numberBytes(v))
	}
}

// decimalTo returns a number as a decimal. A float becomes its shortest decimal text, so 0.1 is 0.1. The scale follows
// from the number: 1.50 keeps its scale of 2.
func decimalTo(m *Meter, t *types.Type, v Value) []byte {
	// Strings are not converted, as for all numbers.
	switch n := v.(type) {
	case int64, *big.Int, *apd.Decimal:
		return types.AppendDecimal(nil, toDecimal(n))
	case float64:
		// Decimals have neither infinities nor NaN.
		if !math.IsInf(n, 0) && n == n {
			if b, err := t.FromText(floatText(n)); err == nil {
				return b
			}
		}
	}
	// Also for a float that FromText refuses.
	mismatch(t, v)
	return nil
}

// integerTo returns a number as one of the integer types, a date, a time or a timestamp. The ranges are checked, never
// wrapped: a result of 300 for a tinyint fails.
func integerTo(m *Meter, t *types.Type, v Value) []byte {
	n := wholeNumber(m, v)
	if n == nil {
		mismatch(t, v)
	}
	// A number of more than 64 bits fits no type here.
	if !n.IsInt64() {
		Failf("the result %s is out of the range of %s", Describe(v), t)
	}
	x := n.Int64()
	switch t.Kind() {
	case types.Date:
		if x < -1<<31 || x >= 1<<31 {
			Failf("the result %d is out of the range of date", x)
		}
		return wire.AppendUint32(nil, uint32(x+1<<31))
	case types.Time:
		if x < 0 || x >= 24*3600*1e9 {
			Failf("the result %d is out of the range of time", x)
		}
		return wire.AppendInt64(nil, x)
	case types.Timestamp:
		return wire.AppendInt64(nil, x)
	}
	if !t.Kind().FitsInt64(x) {
		Failf("the result %d is out of the range of %s", x, t)
	}
	return t.AppendInt64(nil, x)
}

// tableTo returns a table as a collection, a tuple, a user-defined type or a duration. An invalid key or value fails
// the whole result. Elements are encoded before they are sorted, so memory is needed for both forms at once.
func tableTo(m *Meter, t *types.Type, v *Table) []byte {
	var parts [][]byte
	// The list of parts is memory as well: a slice takes 24 bytes.
	add := func(t *types.Type, v Value) {
		m.Alloc(32)
		b := ToCQL(m, t, v)
		// A null part: allowed in tuples and user-defined types, and refused below in collections.
		if b == nil && v == nil {
			parts = append(parts, nil)
			return
		}
		parts = append(parts, append([]byte{}, b...))
	}
	switch t.Kind() {
	// A table with named parts, not a collection.
	case types.Duration:
		return durationTo(m, t, v)
	case types.List, types.Vector:
		if !v.IsList() {
			Failf("the result is not a list: it has keys other than 1, 2, …")
		}
		for _, e := range v.Values() {
			if e == nil {
				Failf("the result is a list with nil")
			}
			add(t.Elems()[0], e)
		}
	case types.Set, types.Map:
		for k, e, at := v.Next(m, 0); at >= 0; k, e, at = v.Next(m, at) {
			// t[x] = false removes x from a set, as t[x] = nil does.
			if t.Kind() == types.Set && e == false {
				continue
			}
			add(t.Elems()[0], k)
			if t.Kind() == types.Map {
				add(t.Elems()[1], e)
			}
		}
	case types.Tuple:
		for i, e := range t.Elems() {
			add(e, v.Get(m, int64(i+1)))
		}
	case types.UDT:
		for i, e := range t.Elems() {
			add(e, v.Get(m, t.FieldNames()[i]))
		}
	}
	// It sorts the elements of sets and maps, keeps the last of equal ones, and refuses null in a collection.
	b, err := t.AppendParts(nil, parts)
	if err != nil {
		Failf("%v", err)
	}
	m.Alloc(int64(len(b)))
	if b == nil {
		// An empty collection, not null.
		b = []byte{}
	}
	return b
}

// durationTo returns a table as a duration. Absent parts are 0. Other keys are ignored. Its keys are months, days and
// nanoseconds.
func durationTo(m *Meter, t *types.Type, v *Table) []byte {
	part := func(name string) int64 {
		n := wholeNumber(m, v.Get(m, name))
		if v.Get(m, name) == nil {
			return 0
		}
		// A fraction, or something that is no number.
		if n == nil || !n.IsInt64() {
			Failf("%s of a duration is %s", name, Describe(v.Get(m, name)))
		}
		return n.Int64()
	}
	// Both have 32 bits in a duration.
	months, days := part("months"), part("days")
	if months != int64(int32(months)) || days != int64(int32(days)) {
		Failf("the result is out of the range of duration")
	}
	b := types.DurationValue{Months: int32(months), Days: int32(days), Nanos: part("nanoseconds")}.Append(nil)
	// The signs of the three parts must be equal.
	if err := t.Validate(b); err != nil {
		Failf("%v", err)
	}
	return b
}

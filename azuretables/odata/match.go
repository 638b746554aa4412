package odata

import (
	"bytes"
	"cmp"
	"math"
	"strings"
)

// Matches reports whether an entity matches a $filter; every entity matches a nil filter.
//
// A comparison with a property that the entity lacks, or whose type is not comparable with the value's, is false,
// including ne; not (p ne 'x') therefore matches entities without p. Int32, Int64 and Double compare as numbers.
// Strings compare by their UTF-8 bytes, like CQL's text, which is the order of code points. (Azure compares UTF-16 code
// units, which orders U+E000–FFFF after everything above U+FFFF.) It does not allocate.
//
// It is called for each entity that a query reads, so a filter is parsed once.
func Matches(filter Expr, e *Entity) bool {
	switch x := filter.(type) {
	case nil:
		return true
	case *Comparison:
		return x.matches(e)
	case *And:
		return Matches(x.Left, e) && Matches(x.Right, e)
	case *Or:
		return Matches(x.Left, e) || Matches(x.Right, e)
	case *Not:
		return !Matches(x.X, e)
	case *Constant:
		return x.True
	}
	// No other type implements Expr.
	return false
}

// matches evaluates the comparison. The three system properties are always present. Names are compared exactly.
func (c *Comparison) matches(e *Entity) bool {
	switch c.Property {
	case "PartitionKey":
		return c.matchesText(e.PartitionKey)
	case "RowKey":
		return c.matchesText(e.RowKey)
	case "Timestamp":
		return (&Value{Type: DateTime, Int: e.Timestamp}).matches(c.Op, &c.Value)
	}
	// An entity without the property does not match, also with ne.
	p := e.Property(c.Property)
	return p != nil && p.Value.matches(c.Op, &c.Value)
}

// matchesText compares a key, which is a string. Keys are compared without a copy.
func (c *Comparison) matchesText(key string) bool {
	// Another type matches nothing, also with ne.
	if c.Value.Type != String {
		return false
	}
	b := c.Value.Bytes
	switch {
	case c.Op == StartsWith:
		return len(key) >= len(b) && key[:len(b)] == string(b)
	case c.Op == Contains:
		return strings.Contains(key, string(b))
	// Comparing bytes compares code points.
	case key < string(b): // these conversions do not allocate
		return c.Op.holds(-1)
	case key == string(b):
		return c.Op.holds(0)
	}
	return c.Op.holds(1)
}

// matches reports whether v op w is true. Both have a type. v is of the entity, w of the filter.
func (v *Value) matches(op Op, w *Value) bool {
	switch op {
	// Functions are defined for strings only.
	case StartsWith:
		return v.Type == String && w.Type == String && bytes.HasPrefix(v.Bytes, w.Bytes)
	case Contains:
		return v.Type == String && w.Type == String && bytes.Contains(v.Bytes, w.Bytes)
	}
	order, ok := v.compare(w)
	if !ok { // NaN is unequal to any number; values of different types never match
		return op == Ne && v.number() && w.number()
	}
	return op.holds(order)
}

// holds reports whether the operator is true for the given order of two values. order is negative, zero or positive,
// like the result of cmp.Compare. Functions have no order and return false.
func (op Op) holds(order int) bool {
	switch op {
	case Eq:
		return order == 0
	case Ne:
		return order != 0
	case Gt:
		return order > 0
	case Ge:
		return order >= 0
	case Lt:
		return order < 0
	case Le:
		return order <= 0
	}
	return false
}

// number reports whether the value is numeric. Booleans and DateTimes are not. They are compared with each other by
// value.
func (v *Value) number() bool { return v.Type == Int32 || v.Type == Int64 || v.Type == Double }

// isNaN reports whether the value is NaN.
func (v *Value) isNaN() bool { return v.Type == Double && math.IsNaN(v.Float) }

// compare orders two values; ok is false if they have no order. GUIDs are ordered by the bytes of their text.
func (v *Value) compare(w *Value) (order int, ok bool) {
	// Numeric types are comparable with each other.
	if v.number() && w.number() {
		return compareNumbers(v, w)
	}
	if v.Type != w.Type {
		return 0, false
	}
	switch v.Type {
	case String, Binary, GUID:
		return bytes.Compare(v.Bytes, w.Bytes), true
	}
	// Boolean and DateTime: false precedes true, and ticks are in UTC.
	return cmp.Compare(v.Int, w.Int), true
}

// compareNumbers orders two numbers; ok is false if one is NaN. Zero and minus zero are equal.
func compareNumbers(v, w *Value) (int, bool) {
	switch {
	case v.isNaN() || w.isNaN():
		return 0, false
	case v.Type == Double && w.Type == Double:
		return cmp.Compare(v.Float, w.Float), true
	case v.Type == Double:
		// compareIntFloat has the integer first.
		return -compareIntFloat(w.Int, v.Float), true
	case w.Type == Double:
		return compareIntFloat(v.Int, w.Float), true
	}
	return cmp.Compare(v.Int, w.Int), true
}

// compareIntFloat compares without rounding: not every int64 is a float64. f is not NaN.
func compareIntFloat(n int64, f float64) int {
	switch {
	// Outside the range of int64, the conversion below is undefined.
	case f >= 1<<63:
		return -1
	case f < -1<<63:
		return 1
	}
	whole := math.Trunc(f)
	if order := cmp.Compare(n, int64(whole)); order != 0 {
		return order
	}
	// The integers are equal, so the fraction of f decides.
	return cmp.Compare(whole, f)
}

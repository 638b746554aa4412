package types

import (
	"math"
	"math/big"

	"github.com/cockroachdb/apd/v3"

	"cqld/types/number"
)

// IsInteger reports whether the kind's values are integers. A counter counts as bigint. Times and dates do not.
func (k Kind) IsInteger() bool {
	switch k {
	case Bigint, Counter, Int, Smallint, Tinyint, Varint:
		return true
	}
	return false
}

// IsNumber reports whether the kind supports arithmetic. Durations have their own, with dates.
func (k Kind) IsNumber() bool {
	switch k {
	case Decimal, Double, Float:
		return true
	}
	return k.IsInteger()
}

// WidestNumber returns the result type of an operation on numbers of two types: as wide as the wider operand, and with
// a fraction if one of them has one. For example, bigint and float give double, varint and float give decimal. The
// rules are Cassandra's; both types must be numbers.
//
//	tinyint, smallint   smallint
//	int, counter        bigint
//	int, float          float
//	bigint, float       double
//	varint, float       decimal
func WidestNumber(a, b *Type) *Type {
	size := max(numberSize(a), numberSize(b))
	// size is also from an integer operand, whose width the result must have.
	if !a.kind.IsInteger() || !b.kind.IsInteger() {
		switch {
		case size > 8:
			return Native(Decimal)
		case size > 4:
			return Native(Double)
		}
		return Native(Float)
	}
	switch {
	case size > 8:
		return Native(Varint)
	case size > 4:
		return Native(Bigint)
	case size > 2:
		return Native(Int)
	case size > 1:
		return Native(Smallint)
	}
	return Native(Tinyint)
}

// numberSize ranks varint and decimal above all others. Other numbers rank by their size in bytes.
func numberSize(t *Type) int {
	if n := fixedSize(t.kind); n != 0 {
		return n
	}
	return math.MaxInt
}

// Int64 decodes an integer. ok is false for null, empty, other types, wrong lengths, and a varint beyond int64.
func (t *Type) Int64(wire []byte) (v int64, ok bool) {
	if len(wire) == 0 || !t.kind.IsInteger() {
		return 0, false
	}
	if t.kind == Varint {
		// Strip superfluous bytes, which must not make the number too long.
		wire = number.Minimal(wire)
	} else if len(wire) != fixedSize(t.kind) {
		return 0, false
	}
	// Only a varint can be longer.
	if len(wire) > 8 {
		return 0, false
	}
	return number.Int64(wire), true
}

// AppendInt64 appends v as a value of an integer type. Values that do not fit are truncated, as in the arithmetic of
// Java and therefore of CQL; FitsInt64 checks that. Kinds not listed have 8 bytes.
func (t *Type) AppendInt64(dst []byte, v int64) []byte {
	// The conversions keep the lower bytes.
	switch t.kind {
	case Varint:
		return number.AppendInt64(dst, v)
	case Tinyint:
		return append(dst, byte(v))
	case Smallint:
		return appendBE16(dst, uint16(v))
	case Int:
		return appendBE32(dst, uint32(v))
	}
	return appendBE64(dst, uint64(v))
}

// FitsInt64 reports whether an integer kind can represent v. A varint always can.
func (k Kind) FitsInt64(v int64) bool {
	// Shifting there and back keeps v only if the upper bits repeat its sign.
	size := min(fixedSize(k), 8)
	return size == 0 || v<<(64-8*size)>>(64-8*size) == v
}

// Big decodes an integer of any type. ok is false for null, empty and other types. The result is new.
func (t *Type) Big(wire []byte) (x *big.Int, ok bool) {
	if v, ok := t.Int64(wire); ok {
		return big.NewInt(v), true
	}
	if t.kind != Varint || len(wire) == 0 {
		return nil, false
	}
	return number.Big(wire), true
}

// AppendVarint appends x as a varint: in the fewest bytes.
func AppendVarint(dst []byte, x *big.Int) []byte { return number.Append(dst, x) }

// Float64 decodes any number to the nearest float64. ok is false for null, empty, other types and malformed bytes.
// Numbers beyond its range become infinities.
func (t *Type) Float64(wire []byte) (f float64, ok bool) {
	// Validate accepts null and, for these kinds, the empty value; their lengths match no case and no conversion below.
	switch {
	case t.Validate(wire) != nil:
		return 0, false
	case t.kind == Double && len(wire) == 8:
		return math.Float64frombits(be64(wire)), true
	case t.kind == Float && len(wire) == 4:
		return float64(math.Float32frombits(be32(wire))), true
	case t.kind == Decimal && len(wire) >= 4:
		return number.DecimalFloat(wire, 64), true
	}
	if v, ok := t.Int64(wire); ok {
		return float64(v), true
	}
	// A varint beyond 64 bits.
	if x, ok := t.Big(wire); ok {
		return number.Rounded(new(big.Float).SetInt(x), 64), true
	}
	return 0, false
}

// Float32 is Float64 for the nearest float32. It rounds once: a float64 of a bigint or decimal is rounded already.
func (t *Type) Float32(wire []byte) (f float32, ok bool) {
	if t.kind == Decimal && len(wire) >= 4 {
		return float32(number.DecimalFloat(wire, 32)), true
	}
	if v, ok := t.Int64(wire); ok {
		return float32(v), true
	}
	if x, ok := t.Big(wire); ok {
		return float32(number.Rounded(new(big.Float).SetInt(x), 32)), true
	}
	d, ok := t.Float64(wire)
	return float32(d), ok
}

// AppendFloat64 appends f as a float or double. It writes Java's NaN, so that equal values have equal bytes.
func (t *Type) AppendFloat64(dst []byte, f float64) []byte {
	if t.kind == Float {
		return appendBE32(dst, floatBits32(float32(f)))
	}
	return appendBE64(dst, floatBits64(f))
}

// Decimal decodes any number to a decimal; a float or double to the shortest one that parses back to it. ok is false
// for null, empty, other types, NaN and infinities, and for the scale -2^31, whose exponent an apd.Decimal cannot
// represent. The scale of a decimal is kept.
func (t *Type) Decimal(wire []byte) (d *apd.Decimal, ok bool) {
	switch t.kind {
	case Decimal:
		// The exponent would be 2^31.
		if len(wire) < 4 || be32(wire) == 1<<31 {
			return nil, false
		}
		return apdDecimal(number.Big(wire[4:]), -int32(be32(wire))), true
	case Double, Float:
		f, ok := t.Float64(wire)
		if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, false
		}
		// A float has the shortest text of 32 bits: 0.1 stays 0.1.
		bits := 64
		if t.kind == Float {
			bits = 32
		}
		d, _, err := apd.NewFromString(string(appendFloatText(nil, f, bits)))
		return d, err == nil
	}
	x, ok := t.Big(wire)
	if !ok {
		return nil, false
	}
	return apdDecimal(x, 0), true
}

// apdDecimal returns x × 10^exponent.
func apdDecimal(x *big.Int, exponent int32) *apd.Decimal {
	// apd stores the sign separately from the coefficient.
	d := &apd.Decimal{Exponent: exponent, Negative: x.Sign() < 0}
	d.Coeff.SetMathBigInt(new(big.Int).Abs(x))
	return d
}

// AppendDecimal appends a finite d as a decimal. It keeps the exponent and trailing zeros. The scale is the negated
// exponent.
func AppendDecimal(dst []byte, d *apd.Decimal) []byte {
	// Copy the coefficient, so that Neg does not change d.
	x := d.Coeff.MathBigInt()
	if d.Negative {
		x.Neg(x)
	}
	return number.Append(appendBE32(dst, uint32(-d.Exponent)), x)
}

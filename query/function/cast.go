package function

import (
	"math"
	"math/big"

	"cqld/query/invalid"
	"cqld/types"
)

// castText returns the text of a value as Cassandra writes it, except for a timestamp, which has a T and no space.
func castText(from, _ *types.Type, v []byte) ([]byte, error) {
	if from.Kind() == types.Timestamp {
		return types.AppendTimestampText(nil, millisOf(from, v), 'T'), nil
	}
	if types.TooLongForText(from, v) {
		return nil, invalid.Errorf("Cannot convert a %s of %d bytes to text: the maximum is %d bytes", from, len(v),
			types.NumberTextMax)
	}
	return from.AppendText(nil, v), nil
}

// castNumber converts as Java does: integers and floats are truncated, and integers are reduced to the lowest bits. For
// example CAST(300 AS tinyint) is 44, and CAST(-1.9 AS int) is -1.
func castNumber(from, to *types.Type, v []byte) ([]byte, error) {
	// Only integer targets of fixed width need the truncation below.
	switch to.Kind() {
	case types.Float:
		// A conversion through double would round twice.
		x, _ := from.Float32(v)
		return to.AppendFloat64(nil, float64(x)), nil
	case types.Double:
		x, _ := from.Float64(v)
		return to.AppendFloat64(nil, x), nil
	case types.Decimal:
		d, ok := from.Decimal(v)
		if !ok {
			return nil, invalid.Errorf("Infinite or NaN")
		}
		return types.AppendDecimal(nil, d), nil
	}
	switch from.Kind() {
	case types.Float, types.Double:
		// As in Cassandra, a varint is first converted to a bigint, which drops higher bits.
		of := to
		if to.Kind() == types.Varint {
			of = native(types.Bigint)
		}
		x, _ := from.Float64(v)
		return to.AppendInt64(nil, truncate(of, x)), nil
	case types.Decimal:
		// Cassandra converts a decimal to a bigint first, even if the target is varint, so higher bits are lost.
		x, err := decimalBits(v)
		if err != nil {
			return nil, err
		}
		return to.AppendInt64(nil, x), nil
	case types.Varint:
		return to.AppendInt64(nil, lowBits(v)), nil
	}
	x, _ := from.Int64(v)
	return to.AppendInt64(nil, x), nil
}

// lowBits returns the lowest 64 bits of a varint. It corresponds to BigInteger.longValue.
func lowBits(v []byte) int64 {
	var x uint64
	if len(v) > 0 && v[0] >= 0x80 {
		x = math.MaxUint64
	}
	for _, b := range v {
		x = x<<8 | uint64(b)
	}
	return int64(x)
}

// decimalBits returns the lowest 64 bits of a decimal's integral part. It corresponds to BigDecimal.longValue.
func decimalBits(v []byte) (int64, error) {
	d, ok := native(types.Decimal).Decimal(v)
	switch {
	// The value is a multiple of 10^64 and hence of 2^64, so the bits are 0. If ok is false, the scale is -2^31, with
	// the same result.
	case !ok || d.Exponent >= 64:
		return 0, nil
	// The magnitude is below 0.1 for any digits: a coefficient below 2^n has at most n/3 + 1 digits.
	case int64(d.Coeff.BitLen())/3+1+int64(d.Exponent) < 0:
		return 0, nil
	case d.Coeff.BitLen() > decimalBitsMax:
		return 0, invalid.Errorf("the number is out of range")
	}
	// Truncated toward zero, as Quo does.
	x := d.Coeff.MathBigInt()
	if power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(d.Exponent, -d.Exponent))), nil); d.Exponent < 0 {
		x.Quo(x, power)
	} else {
		x.Mul(x, power)
	}
	if d.Negative {
		x.Neg(x)
	}
	return lowBits(types.AppendVarint(nil, x)), nil
}

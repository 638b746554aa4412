package function

import (
	"math"

	"github.com/cockroachdb/apd/v3"

	"cqld/query/invalid"
	"cqld/types"
)

// log10 returns the decimal logarithm, which is exact for powers of ten: math.Log10(1000) is 2.9999999999999996.
func log10(x float64) float64 {
	y := math.Log10(x)
	// The powers of ten that a float64 represents, or is nearest to.
	if n := math.Round(y); math.Abs(y-n) < 1e-9 && math.Pow10(int(n)) == x {
		return n
	}
	return y
}

// The significant digits of exp, log and log10 of a decimal or varint: as many as the argument, within these bounds.
// Cassandra's upper bound is 10,000, for which a call takes seconds.
const (
	mathDigitsMin = 32
	mathDigitsMax = 128
)

// mathDecimal computes exp, log or log10. A varint result is truncated. The logarithm of zero or of a negative number
// is an error.
func mathDecimal(name string, t *types.Type, v []byte) ([]byte, error) {
	d, ok := t.Decimal(v)
	if !ok || tooLarge(d) {
		return nil, invalid.Errorf("%s of a number out of range", name)
	}
	c := &apd.Context{Precision: uint32(min(max(d.NumDigits(), mathDigitsMin), mathDigitsMax)),
		MaxExponent: apd.MaxExponent, MinExponent: apd.MinExponent,
		Traps:    apd.DefaultTraps &^ (apd.Inexact | apd.Rounded | apd.Subnormal | apd.Underflow),
		Rounding: apd.RoundHalfEven}
	r := new(apd.Decimal)
	var err error
	switch {
	case name == "exp":
		_, err = c.Exp(r, d)
	// The texts are Cassandra's.
	case d.Sign() <= 0 && name == "log":
		return nil, invalid.Errorf("Natural log of number zero or less")
	case d.Sign() <= 0:
		return nil, invalid.Errorf("Log10 of number zero or less")
	case name == "log":
		_, err = c.Ln(r, d)
	default:
		_, err = c.Log10(r, d)
	}
	if err != nil {
		return nil, invalid.Errorf("%s: %v", name, err)
	}
	if t.Kind() == types.Decimal {
		return types.AppendDecimal(nil, r), nil
	}
	x := new(apd.Decimal)
	// A varint result is the integral part.
	whole := decimalContext()
	whole.Rounding = apd.RoundDown
	if _, err := whole.Quantize(x, r, 0); err != nil {
		return nil, invalid.Errorf("%s: %v", name, err)
	}
	n := x.Coeff.MathBigInt()
	if x.Negative {
		n.Neg(n)
	}
	return types.AppendVarint(nil, n), nil
}

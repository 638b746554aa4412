package function

import (
	"math"

	"github.com/cockroachdb/apd/v3"

	"cqld/query/invalid"
	"cqld/types"
)

// log10 returns the decimal logarithm. Unlike math.Log10, which returns 2.9999999999999996 for 1000, it is exact for
// powers of ten.
func log10(x float64) float64 {
	y := math.Log10(x)
	// x is 10^n, or the float64 nearest to it.
	if n := math.Round(y); math.Abs(y-n) < 1e-9 && math.Pow10(int(n)) == x {
		return n
	}
	return y
}

// exp, log and log10 of a decimal or varint return as many significant digits as the argument has, within these
// bounds. Cassandra's upper bound is 10,000, with which a call takes seconds.
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
	// The messages are Cassandra's.
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

package function

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/cockroachdb/apd/v3"

	"cqld/query/invalid"
	"cqld/types"
)

// The names of the functions that implement operators are Cassandra's.
const (
	// _substract is Cassandra's spelling.
	opAdd      = "_add"
	opSubtract = "_substract"
	opMultiply = "_multiply"
	opDivide   = "_divide"
	opModulo   = "_modulo"
)

// resultBytesMax bounds the size, in bytes, of the results of operators on texts and varints, because a statement may
// contain thousands of operators. Larger values cannot be stored.
const resultBytesMax = 16 << 20

// operandBytesMax bounds the operands of products and quotients of varints, in bytes. The time of an operation is
// about proportional to the product of the operands' lengths, so checkOperands compares that product with
// operandBytesMax squared; one operand may be longer if the other is shorter. Two operands of operandBytesMax take 5
// ms, and a statement may compute thousands of them.
const operandBytesMax = 64 << 10

// addOperators adds arithmetic on every pair of numeric types, the concatenation of texts, and durations added to
// times. Each pair is a signature of its own, because error messages list the signatures. There are 9 numeric types,
// so each operator has 81 signatures.
func (l *Library) addOperators() {
	numbers := numericKinds()
	for _, op := range []string{opAdd, opSubtract, opMultiply, opDivide, opModulo} {
		for _, a := range numbers {
			for _, b := range numbers {
				l.add(arithmetic(op, native(a), native(b)))
			}
		}
	}
	for _, k := range numbers {
		t := native(k)
		l.add(&Function{Name: "_negate", Args: args(k), Returns: t,
			Eval: strict(func(a [][]byte) ([]byte, error) {
				if len(a[0]) == 0 {
					return nil, nil
				}
				return negate(t, a[0])
			})})
	}
	for _, k := range []types.Kind{types.Ascii, types.Text} {
		for _, m := range []types.Kind{types.Ascii, types.Text} {
			returns := native(types.Text)
			if k == types.Ascii && m == types.Ascii {
				returns = native(types.Ascii)
			}
			l.add(&Function{Name: opAdd, Args: args(k, m), Returns: returns,
				Eval: strict(func(a [][]byte) ([]byte, error) {
					if n := len(a[0]) + len(a[1]); n > resultBytesMax {
						return nil, invalid.Errorf("The result of + has %d bytes, more than %d", n, resultBytesMax)
					}
					return slices.Concat(a[0], a[1]), nil
				})})
		}
	}
	for _, k := range []types.Kind{types.Timestamp, types.Date} {
		l.add(temporal(opAdd, k, 1))
		l.add(temporal(opSubtract, k, -1))
	}
}

// zero returns 0 as a value of t. It is the left operand of a negation.
func zero(t *types.Type) []byte {
	switch t.Kind() {
	case types.Decimal:
		return types.AppendDecimal(nil, apd.New(0, 0))
	case types.Float, types.Double:
		return t.AppendFloat64(nil, math.Copysign(0, -1)) // -0 - x is -x, for 0 too
	}
	return t.AppendInt64(nil, 0)
}

// arithmetic returns one signature of an operator. The result has the wider type of both operands. Null and empty
// operands give null. For example, int + bigint is a bigint, and bigint / float a double.
func arithmetic(op string, a, b *types.Type) *Function {
	// Resolve matches the exact types of the operands, so arguments arrive unconverted.
	returns := types.WidestNumber(a, b)
	text, _ := operatorText(op)
	return &Function{Name: op, Args: []*types.Type{a, b}, Returns: returns,
		Eval: func(_ Env, args [][]byte) ([]byte, error) {
			// Null or empty.
			if len(args[0]) == 0 || len(args[1]) == 0 {
				return nil, nil
			}
			v, err := compute(op, returns, a, args[0], args[1], b)
			// As in Cassandra, clients receive a function failure with the signature.
			if err != nil {
				return nil, &invalid.FunctionFailure{Keyspace: "system", Function: op, Args: []string{a.String(),
					b.String()},
					Msg: "the operation '" + a.String() + " " + text + " " + b.String() + "' failed: " + err.Error()}
			}
			return v, nil
		}}
}

// negate returns -v. It is 0 - v, with the rules of subtraction, except for a decimal, which keeps its scale: -(1E+3)
// is -1E+3, and not -1000.
func negate(t *types.Type, v []byte) ([]byte, error) {
	if t.Kind() != types.Decimal {
		return compute(opSubtract, t, t, zero(t), v)
	}
	d, ok := t.Decimal(v)
	if !ok {
		return nil, invalid.Errorf("Infinite or NaN")
	}
	return types.AppendDecimal(nil, d.Neg(d)), nil
}

// errDivisionByZero has the message of Java's ArithmeticException.
var errDivisionByZero = errors.New("/ by zero")

// compute computes a op b in the type to. Neither value is null or empty. bType is the type of b; if omitted, b has
// the type of a.
func compute(op string, to, aType *types.Type, a, b []byte, bTypes ...*types.Type) ([]byte, error) {
	bType := aType
	if len(bTypes) > 0 {
		bType = bTypes[0]
	}
	// The type of the result selects the arithmetic.
	switch to.Kind() {
	case types.Float, types.Double:
		x, _ := aType.Float64(a)
		y, _ := bType.Float64(b)
		return computeFloat(op, to, x, y), nil
	// Decimal has no representation for NaN and infinities.
	case types.Decimal:
		x, ok := operand(aType, a)
		y, ok2 := operand(bType, b)
		if !ok || !ok2 {
			return nil, errors.New("Infinite or NaN") //nolint:staticcheck // Java's text
		}
		return computeDecimal(op, x, y)
	// Both operands are integers: if one had a fraction, the result type would be decimal.
	case types.Varint:
		x, _ := aType.Big(a)
		y, _ := bType.Big(b)
		return computeBig(op, x, y)
	}
	// Both fit into 64 bits; to truncates the result to its width.
	x, _ := aType.Int64(a)
	y, _ := bType.Int64(b)
	return computeInt(op, to, x, y)
}

// operand converts a number to an operand of decimal arithmetic. As in Cassandra, small integers and floats are
// converted to a double first: an integer gets one digit after the decimal point, and a float keeps all digits of the
// double. For example, 1 becomes 1.0, so that 1 + 0.5 has the scale of Cassandra's result.
func operand(t *types.Type, v []byte) (*apd.Decimal, bool) {
	if t.Kind().IsInteger() && t.Kind() != types.Varint || t.Kind() == types.Float {
		x, ok := t.Float64(v)
		if !ok {
			return nil, false
		}
		double := native(types.Double)
		return double.Decimal(double.AppendFloat64(nil, x))
	}
	return t.Decimal(v)
}

// computeInt computes with 64 bits. Overflow wraps as in Java: the low bits of a 64-bit result equal the result in a
// smaller width. For example, 2147483647 + 1 as an int is -2147483648.
func computeInt(op string, to *types.Type, x, y int64) ([]byte, error) {
	var v int64
	switch op {
	case opAdd:
		v = x + y
	case opSubtract:
		v = x - y
	case opMultiply:
		v = x * y
	// Go panics on an integer division by zero.
	case opDivide, opModulo:
		if y == 0 {
			return nil, errDivisionByZero
		}
		switch {
		case y == -1 && op == opDivide:
			v = -x // the minimum integer stays the same, as in Java
		case y == -1:
			v = 0
		case op == opDivide:
			v = x / y
		default:
			v = x % y
		}
	}
	return to.AppendInt64(nil, v), nil
}

// checkOperands returns an error if a product or quotient would take too long or be too large.
func checkOperands(op string, x, y *big.Int) error {
	n, m := int64(x.BitLen()+7)/8, int64(y.BitLen()+7)/8
	// A length is less than 2^31, so the product does not overflow.
	if n*m > operandBytesMax*operandBytesMax {
		return errors.New("the operands are too long")
	}
	if op == opMultiply && n+m > resultBytesMax {
		return fmt.Errorf("the result has %d bytes, more than %d", n+m, resultBytesMax)
	}
	return nil
}

// computeBig computes with integers of any size. Quo and Rem truncate toward zero, like Java.
func computeBig(op string, x, y *big.Int) ([]byte, error) {
	v := new(big.Int)
	switch op {
	case opAdd:
		v.Add(x, y)
	case opSubtract:
		v.Sub(x, y)
	case opMultiply:
		if err := checkOperands(op, x, y); err != nil {
			return nil, err
		}
		v.Mul(x, y)
	case opDivide, opModulo:
		if y.Sign() == 0 {
			return nil, errors.New("BigInteger divide by zero") // Java's words
		}
		if err := checkOperands(op, x, y); err != nil {
			return nil, err
		}
		if op == opDivide {
			v.Quo(x, y)
		} else {
			v.Rem(x, y)
		}
	}
	return types.AppendVarint(nil, v), nil
}

// computeFloat computes with the precision of type to: the result for a float is rounded to 32 bits after the
// operation. A division by zero gives an infinity or NaN, and no error.
func computeFloat(op string, to *types.Type, x, y float64) []byte {
	// Operands are rounded to float first, as Java converts int and long to float.
	if to.Kind() == types.Float {
		a, b := float32(x), float32(y)
		switch op {
		case opAdd:
			return to.AppendFloat64(nil, float64(a+b))
		case opSubtract:
			return to.AppendFloat64(nil, float64(a-b))
		case opMultiply:
			return to.AppendFloat64(nil, float64(a*b))
		case opDivide:
			return to.AppendFloat64(nil, float64(a/b))
		}
		// math.Mod is exact, and the remainder of two floats always fits into a float.
		return to.AppendFloat64(nil, math.Mod(float64(a), float64(b)))
	}
	switch op {
	case opAdd:
		return to.AppendFloat64(nil, x+y)
	case opSubtract:
		return to.AppendFloat64(nil, x-y)
	case opMultiply:
		return to.AppendFloat64(nil, x*y)
	case opDivide:
		return to.AppendFloat64(nil, x/y)
	}
	return to.AppendFloat64(nil, math.Mod(x, y))
}

// The bounds of a decimal's exponents; beyond them, arithmetic would need unlimited memory.
const (
	// bounds the exponents of operands, because aligning two decimals needs as many digits as their exponents differ
	decimalExponentMax = 10000
	// bounds the scale of quotients, in digits after the decimal point, as Cassandra's DecimalType does
	decimalScaleMin = 32
	decimalScaleMax = 1000
	// bounds the precision of intermediate results, in digits
	decimalPrecision = 10000
	// decimalBitsMax bounds the coefficients in computations, to about 131,072 digits.
	decimalBitsMax = 435412
)

// decimalContext computes exactly within the precision. An inexact result is not an error; callers round it. It
// returns a new context, because callers change it.
func decimalContext() *apd.Context {
	return &apd.Context{Precision: decimalPrecision, MaxExponent: apd.MaxExponent, MinExponent: apd.MinExponent,
		Traps:    apd.DefaultTraps &^ (apd.Inexact | apd.Rounded | apd.Subnormal | apd.Underflow),
		Rounding: apd.RoundHalfUp}
}

// computeDecimal computes with decimals. Operands that would need unlimited memory are refused first. For example, 1.10
// + 2 is 3.10: the scale is the larger one of the operands.
func computeDecimal(op string, x, y *apd.Decimal) ([]byte, error) {
	if tooLarge(x) || tooLarge(y) {
		return nil, errors.New("decimal exponent out of range")
	}
	c, v := decimalContext(), new(apd.Decimal)
	var err error
	switch op {
	case opAdd:
		_, err = c.Add(v, x, y)
	case opSubtract:
		_, err = c.Sub(v, x, y)
	case opMultiply:
		_, err = c.Mul(v, x, y)
	case opDivide:
		if y.IsZero() {
			return nil, errors.New("BigInteger divide by zero") // Java's words
		}
		// divideDecimal determines the scale of the quotient.
		return divideDecimal(exactDivision(c, x, y), x, y)
	case opModulo:
		if y.IsZero() {
			return nil, errors.New("Division by zero") //nolint:staticcheck // Java's words
		}
		// Rem fails unless the precision covers the whole integral quotient.
		if _, err = exactDivision(c, x, y).Rem(v, x, y); err == nil && v.IsZero() {
			v.Exponent, err = zeroRemainderExponent(c, x, y)
		}
	}
	if err != nil {
		return nil, err
	}
	return types.AppendDecimal(nil, v), nil
}

// zeroRemainderExponent returns the exponent that Java gives to a zero remainder x - q·y, where the integral quotient
// q has no trailing zeros beyond the difference of the scales.
func zeroRemainderExponent(c *apd.Context, x, y *apd.Decimal) (int32, error) {
	// Compute the quotient again, because Rem does not return it.
	q := new(apd.Decimal)
	if _, err := c.QuoInteger(q, x, y); err != nil {
		return 0, err
	}
	// Java's preferred scale of a quotient is the difference of the scales.
	preferred := x.Exponent - y.Exponent
	if !q.IsZero() {
		reduced, _ := new(apd.Decimal).Reduce(q)
		preferred = min(preferred, reduced.Exponent)
	}
	return min(x.Exponent, preferred+y.Exponent), nil
}

// exactDivision sets the precision of c for the whole quotient of x and y. The number is an upper bound of the digits
// of the integral quotient and decimalScaleMax fractional ones. It changes c, so the caller must not share c with
// other computations.
func exactDivision(c *apd.Context, x, y *apd.Decimal) *apd.Context {
	digits := x.NumDigits() + y.NumDigits() + int64(max(x.Exponent, -x.Exponent)) +
		int64(max(y.Exponent, -y.Exponent)) + decimalScaleMax
	c.Precision = max(c.Precision, uint32(digits))
	return c
}

// tooLarge reports whether a decimal exceeds the bounds for computations. Such a decimal can still be stored and
// returned.
func tooLarge(d *apd.Decimal) bool {
	return d.Exponent > decimalExponentMax || d.Exponent < -decimalExponentMax || d.Coeff.BitLen() > decimalBitsMax
}

// divideDecimal divides as Cassandra's DecimalType does: with 32 digits after the decimal point, or as many as are
// needed for 32 significant digits, rounded half up, without trailing zeros. For example, 1 / 3 has 32 digits after the
// point, and 1 / 4 is 0.25.
func divideDecimal(c *apd.Context, x, y *apd.Decimal) ([]byte, error) {
	quotient := new(apd.Decimal)
	if _, err := c.Quo(quotient, x, y); err != nil {
		return nil, err
	}
	// digits is the number of digits of the quotient before the decimal point, or the number of zeros after it if
	// negative.
	digits := int32(x.NumDigits()) + x.Exponent - int32(y.NumDigits()) - y.Exponent
	scale := int32(decimalScaleMin)
	if digits < 0 {
		scale -= digits
	}
	// The scale is at least the larger scale of the operands, and at most decimalScaleMax.
	scale = min(max(scale, -x.Exponent, -y.Exponent), decimalScaleMax)
	if _, err := c.Quantize(quotient, quotient, -scale); err != nil {
		return nil, err
	}
	// Trailing zeros are removed, so that equal quotients have equal bytes.
	quotient.Reduce(quotient)
	return types.AppendDecimal(nil, quotient), nil
}

// temporal returns a date or timestamp plus or minus a duration. sign is 1 for addition and -1 for subtraction. For
// example '2024-01-31' + 1mo is 2024-02-29: a day after the end of the month becomes the last day.
func temporal(op string, k types.Kind, sign int) *Function {
	t := native(k)
	return &Function{Name: op, Args: []*types.Type{t, native(types.Duration)}, Returns: t,
		Eval: strict(func(a [][]byte) ([]byte, error) {
			d, ok := types.DecodeDuration(a[1])
			if !ok || len(a[0]) == 0 {
				return nil, nil
			}
			// Negating a duration negates each of its parts.
			d.Months, d.Days, d.Nanos = d.Months*int32(sign), d.Days*int32(sign), d.Nanos*int64(sign)
			// Add months and days in the calendar first, then the nanoseconds.
			ms := millisOf(t, a[0])
			// Reject durations with a unit finer than the resolution of the type.
			switch {
			case k == types.Date && d.Nanos != 0:
				return nil, imprecise(op, t, sign, "day", a[1])
			case k == types.Timestamp && d.Nanos%nanosPerMilli != 0:
				return nil, imprecise(op, t, sign, "millisecond", a[1])
			}
			sum, ok := types.AddDuration(ms, d)
			if !ok {
				return nil, invalid.Errorf("the result of date arithmetic is out of range")
			}
			return fromMillis(t, sum), nil
		})}
}

// imprecise returns the failure of an operation with a duration that has a finer unit than the type.
func imprecise(op string, t *types.Type, sign int, unit string, duration []byte) error {
	return &invalid.FunctionFailure{Keyspace: "system", Function: op, Args: []string{t.String(), "duration"},
		Msg: fmt.Sprintf("the operation '%s %s duration' failed: The duration must have a %s precision. Was: %s",
			t, map[int]string{1: "+", -1: "-"}[sign], unit, native(types.Duration).AppendText(nil, duration))}
}

const (
	nanosPerMilli = 1e6
	nanosPerDay   = 24 * 60 * 60 * 1e9
)

// addMath adds functions whose result has the type of the argument.
func (l *Library) addMath() {
	for _, k := range numericKinds() {
		t := native(k)
		for _, name := range []string{"abs", "exp", "log", "log10", "round"} {
			l.add(&Function{Name: name, Args: args(k), Returns: t, Eval: strict(func(a [][]byte) ([]byte, error) {
				if len(a[0]) == 0 {
					return nil, nil
				}
				return mathOf(name, t, a[0])
			})})
		}
	}
}

// mathOf computes a function of one number. Integers are computed as doubles and truncated. For example, exp(1) of an
// int is 2.
func mathOf(name string, t *types.Type, v []byte) ([]byte, error) {
	// abs and round use the arithmetic of the type.
	switch name {
	case "abs":
		return abs(t, v)
	case "round":
		return round(t, v)
	}
	if k := t.Kind(); k == types.Decimal || k == types.Varint {
		return mathDecimal(name, t, v)
	}
	x, _ := t.Float64(v)
	switch name {
	case "exp":
		x = math.Exp(x)
	case "log":
		x = math.Log(x)
	case "log10":
		x = log10(x)
	}
	// The type is float or double. A float is computed as a double and then rounded.
	if !t.Kind().IsInteger() {
		return t.AppendFloat64(nil, x), nil
	}
	return t.AppendInt64(nil, truncate(t, x)), nil
}

// truncate converts a double to an integer as Java's cast does. NaN is 0, and values out of range are the bounds.
func truncate(t *types.Type, x float64) int64 {
	upper, lower := int64(math.MaxInt64), int64(math.MinInt64)
	switch t.Kind() {
	case types.Int, types.Smallint, types.Tinyint: // Java converts to int first, even for smaller types
		upper, lower = math.MaxInt32, math.MinInt32
	}
	switch {
	// The comparisons below are false for NaN.
	case math.IsNaN(x):
		return 0
	case x >= float64(upper):
		return upper
	case x <= float64(lower):
		return lower
	}
	return int64(x)
}

// abs returns the absolute value. As in Java, the absolute value of the minimum of an integer type overflows: abs of
// the tinyint -128 is -128.
func abs(t *types.Type, v []byte) ([]byte, error) {
	switch t.Kind() {
	case types.Decimal:
		d, ok := t.Decimal(v)
		// The decimal is too large for computations (see types.Decimal), and is returned unchanged.
		if !ok {
			return v, nil
		}
		return types.AppendDecimal(nil, new(apd.Decimal).Abs(d)), nil
	case types.Varint:
		x, _ := t.Big(v)
		return types.AppendVarint(nil, new(big.Int).Abs(x)), nil
	case types.Float, types.Double:
		x, _ := t.Float64(v)
		return t.AppendFloat64(nil, math.Abs(x)), nil
	}
	x, _ := t.Int64(v)
	if x < 0 {
		x = -x
	}
	return t.AppendInt64(nil, x), nil
}

// round rounds to an integer, half up, in the type of the argument. For example, 2.5 becomes 3, and -2.5 becomes -2 for
// a float and a double.
func round(t *types.Type, v []byte) ([]byte, error) {
	switch t.Kind() {
	case types.Decimal:
		d, ok := t.Decimal(v)
		if !ok {
			return v, nil
		}
		// The magnitude is below 0.1 for any digits: a coefficient below 2^n has at most n/3 + 1 digits.
		if int64(d.Coeff.BitLen())/3+1+int64(d.Exponent) < 0 {
			return types.AppendDecimal(nil, apd.New(0, 0)), nil
		}
		// Rounding a decimal with a huge exponent would write out all of its digits.
		if tooLarge(d) {
			return v, nil
		}
		r := new(apd.Decimal)
		if _, err := decimalContext().Quantize(r, d, 0); err != nil {
			return nil, err
		}
		return types.AppendDecimal(nil, r), nil
	case types.Float:
		x, _ := t.Float64(v)
		// Java's Math.round returns an int for a float and a long for a double, and clamps larger values.
		return t.AppendFloat64(nil, float64(truncate(native(types.Int), roundHalfUp(x)))), nil
	case types.Double:
		x, _ := t.Float64(v)
		return t.AppendFloat64(nil, float64(truncate(native(types.Bigint), roundHalfUp(x)))), nil
	}
	// Integers need no rounding.
	return v, nil
}

// roundHalfUp returns the integer nearest to x, and the greater of two equally near ones. It does not compute x +
// 0.5, because that sum is rounded: it becomes 1 just below a half, and an even number above 2^52.
func roundHalfUp(x float64) float64 {
	f := math.Floor(x)
	if x-f >= 0.5 {
		f++
	}
	return f
}

package value

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// Arithmetic has four kinds of numbers: int64, which wraps around as in Lua and Java; *big.Int, which is exact;
// *apd.Decimal; and float64. An operation on two kinds converts both operands to the kind that comes first in the
// order float64, *apd.Decimal, *big.Int, int64.

// Limits on the size of exact numbers, so that one operation takes a bounded time. Larger results are an error of the
// function, not a loss of digits.
const (
	// bitsMax bounds integers: 19,700 decimal digits.
	bitsMax = 1 << 16
	// digitsMax bounds the digits of decimals in an operation, including the zeros that a common exponent needs.
	digitsMax        = 1 << 14
	exponentMax      = 1 << 14
	plainExponentMax = 100 // exponent up to which decimals are formatted without one
	digitsPerWord    = 19  // lower bound, for a word of 64 bits
	quotientSize     = 34  // significant digits of a quotient of decimals, as in IEEE 754's decimal128
)

// rank orders the kinds of numbers: an operation converts its operands to the greater rank.
type rank uint8

const (
	notNumber rank = iota
	ranksInt
	ranksBig
	ranksDecimal
	ranksFloat
)

// rankOf returns the kind of a number. It only examines the Go type, so it takes constant time.
func rankOf(v Value) rank {
	switch v.(type) {
	case int64:
		return ranksInt
	case *big.Int:
		return ranksBig
	case *apd.Decimal:
		return ranksDecimal
	case float64:
		return ranksFloat
	}
	// Strings that contain a number do not count; languages that convert strings do so first.
	return notNumber
}

// IsNumber reports whether v is a number. NaN and infinities are numbers.
func IsNumber(v Value) bool { return rankOf(v) != notNumber }

// ToFloat returns a number as a float64. Like all functions whose time depends on their arguments, it counts its
// work. A number that is out of range becomes infinite. v should be a number; the result for others is NaN.
func ToFloat(m *Meter, v Value) float64 {
	m.Convert(v)
	switch v := v.(type) {
	case int64:
		return float64(v)
	case *big.Int:
		// Numbers out of range become infinite.
		f, _ := new(big.Float).SetInt(v).Float64()
		return f
	case *apd.Decimal:
		f, err := v.Float64()
		// The exponent is out of the range of float64.
		if err != nil && f == 0 {
			return math.Inf(v.Sign())
		}
		return f
	case float64:
		return v
	}
	// v is not a number; callers check before.
	return math.NaN()
}

// toBig returns an integer as a *big.Int. The result must not be modified: it may be v.
func toBig(v Value) *big.Int {
	switch v := v.(type) {
	case int64:
		return big.NewInt(v)
	case *big.Int:
		return v
	}
	// Not reached: callers have compared the ranks.
	return new(big.Int)
}

// toDecimal returns a number that is not a float as a decimal. A result that is v itself must not be modified.
func toDecimal(v Value) *apd.Decimal {
	switch v := v.(type) {
	case int64:
		return apd.New(v, 0)
	case *big.Int:
		return apd.NewWithBigInt(new(apd.BigInt).SetMathBigInt(v), 0)
	case *apd.Decimal:
		return v
	}
	// Not reached: Arith gives floats to arithFloat.
	return new(apd.Decimal)
}

// Arith computes a op b for the operators + - * / % ^ of Lua: / and ^ of integers are floats, % has the sign of the
// divisor. Both must be numbers. Large integers are an exception: their quotient is an integer if it is exact. The
// result is a new value; operands are never modified.
func Arith(m *Meter, op byte, a, b Value) Value {
	m.Step()
	// The operation is exact only if both operands are.
	r := max(rankOf(a), rankOf(b))
	switch {
	case r == ranksInt && op != '/' && op != '^':
		return arithInt(op, a.(int64), b.(int64)) //nolint:forcetypeassert // by rank
	// Including the quotient, see arithBig.
	case r == ranksBig && op != '^':
		return arithBig(m, op, toBig(a), toBig(b))
	case r == ranksDecimal && op != '^':
		return arithDecimal(m, op, toDecimal(a), toDecimal(b))
	}
	// Use floats for float operands, and for operations without an exact result: / of small integers, and powers.
	return arithFloat(op, ToFloat(m, a), ToFloat(m, b))
}

// arithInt computes + - * and % with wrap-around. % has the sign of the divisor. Division is not among the operators,
// because it gives a float.
func arithInt(op byte, a, b int64) Value {
	switch op {
	case '+':
		return a + b
	case '-':
		return a - b
	case '*':
		return a * b
	}
	// Only % is left.
	if b == 0 {
		Failf("attempt to perform 'n%%%%0'")
	}
	// The least integer modulo -1 would overflow.
	if b == -1 {
		return int64(0)
	}
	r := a % b
	// Go's remainder has the sign of the dividend.
	if r != 0 && (r^b) < 0 {
		r += b
	}
	return r
}

// arithBig computes + - * / and %. Time and memory are counted before they are used. The remainder has the sign of the
// divisor, as in Lua. The quotient of two integers is one if there is no remainder, and else a float.
func arithBig(m *Meter, op byte, a, b *big.Int) Value {
	m.Alloc(int64(a.BitLen()+b.BitLen())/8 + 32)
	if op != '+' && op != '-' { // by the product of the words
		m.Work(int64(a.BitLen()/64) * int64(b.BitLen()/64))
	}
	out := new(big.Int)
	switch op {
	case '+':
		out.Add(a, b)
	case '-':
		out.Sub(a, b)
	case '*':
		out.Mul(a, b)
	case '/':
		if b.Sign() == 0 {
			Failf("attempt to divide by zero")
		}
		// Not an integer: the quotient is a float, as it is for small integers.
		if q, r := new(big.Int).QuoRem(a, b, new(big.Int)); r.Sign() == 0 {
			return q
		}
		return ToFloat(m, a) / ToFloat(m, b)
	default:
		if b.Sign() == 0 {
			Failf("attempt to perform 'n%%%%0'")
		}
		// Rem truncates; give the result the sign of the divisor.
		out.Rem(a, b)
		if out.Sign() != 0 && out.Sign() != b.Sign() {
			out.Add(out, b)
		}
	}
	// Check the size afterwards, because the result is at most twice as long as the bounded operands.
	if out.BitLen() > bitsMax {
		Failf("integer has more than %d bits", bitsMax)
	}
	return out
}

// arithDecimal computes + - * / and %. All results are exact, except that a quotient has 34 significant digits. It
// fails, instead of rounding, if an exact result has more than digitsMax digits.
func arithDecimal(m *Meter, op byte, a, b *apd.Decimal) Value {
	m.Scan(a, b)
	// An upper bound of the digits of any exact result: operands are brought to the same exponent.
	digits := digitsOf(a) + digitsOf(b) + abs64(int64(a.Exponent)-int64(b.Exponent))
	if digits > digitsMax {
		Failf("decimal has more than %d digits", digitsMax)
	}
	m.Alloc(digits/2 + 32)
	m.convert(digits / digitsPerWord)
	if op != '+' && op != '-' {
		m.Work((digits / digitsPerWord) * (digits / digitsPerWord) / 4)
	}
	// The precision suffices for exact sums and products.
	c := apd.BaseContext.WithPrecision(uint32(digits) + 1)
	c.Rounding, c.MaxExponent, c.MinExponent = apd.RoundHalfEven, exponentMax, -exponentMax
	out := new(apd.Decimal)
	var err error
	switch op {
	case '+':
		_, err = c.Add(out, a, b)
	case '-':
		_, err = c.Sub(out, a, b)
	case '*':
		_, err = c.Mul(out, a, b)
	case '/':
		// A quotient may have infinitely many digits.
		c.Precision = quotientSize
		_, err = c.Quo(out, a, b)
	default:
		if _, err = c.Rem(out, a, b); err == nil && out.Sign() != 0 && out.Sign() != b.Sign() {
			_, err = c.Add(out, out, b)
		}
	}
	if err != nil {
		Failf("%v", err)
	}
	return out
}

// DecimalInt64 returns a decimal without a fraction as an integer of 64 bits. It does not convert decimals with
// extreme exponents, whose conversion takes time and memory proportional to the exponent. 1.00 is the integer 1.
func DecimalInt64(m *Meter, d *apd.Decimal) (n int64, ok bool) {
	m.Scan(d)
	const digitsOfInt64 = 19
	if d.Exponent > digitsOfInt64 || d.Exponent < -digitsMax {
		return 0, false
	}
	// It fails for a fraction and for a number out of range.
	n, err := d.Int64()
	return n, err == nil
}

// digitsOf returns the number of digits of a decimal. If there are too many digits for arithmetic, it returns a lower
// bound instead, which is greater than digitsMax. Trailing zeros count as digits.
func digitsOf(d *apd.Decimal) int64 {
	// Counting digits converts the number to decimal. A decimal digit takes less than four bits, so this is a lower
	// bound, which is already more than digitsMax.
	if bits := int64(d.Coeff.BitLen()); bits > 4*digitsMax {
		return bits / 4
	}
	return d.NumDigits()
}

// numberBytes returns the size of a number in memory. It is an estimate that includes headers.
func numberBytes(v Value) int64 {
	switch v := v.(type) {
	case *big.Int:
		return int64(v.BitLen())/8 + 32
	case *apd.Decimal:
		return int64(v.Coeff.BitLen())/8 + 64
	}
	// int64 and float64.
	return 8
}

// abs64 returns |n|.
func abs64(n int64) int64 { return max(n, -n) }

// arithFloat computes with IEEE 754; % has the sign of the divisor, as in Lua. Division by zero gives an infinity or
// NaN, never an error.
func arithFloat(op byte, a, b float64) Value {
	switch op {
	case '+':
		return a + b
	case '-':
		return a - b
	case '*':
		return a * b
	case '/':
		return a / b
	case '^':
		return math.Pow(a, b)
	}
	// The remainder by an infinity is the dividend, or the divisor if the signs differ.
	if math.IsInf(b, 0) && !math.IsInf(a, 0) && a == a {
		if a == 0 || (a < 0) == (b < 0) {
			return a
		}
		return b
	}
	// It truncates; the correction gives the sign of the divisor.
	r := math.Mod(a, b)
	if r != 0 && (r < 0) != (b < 0) {
		r += b
	}
	return r
}

// Compare compares two numbers exactly. ok is false if one is NaN or not a number. order is negative, 0 or positive. An
// int64 and a float64 are compared exactly, without rounding either.
func Compare(m *Meter, a, b Value) (order int, ok bool) {
	// The usual case is not counted: its time is constant.
	if x, ok := a.(int64); ok {
		if y, ok := b.(int64); ok {
			return compareInts(x, y), true
		}
	}
	m.Scan(a, b)
	// Strings and other values have no order here.
	ra, rb := rankOf(a), rankOf(b)
	if ra == notNumber || rb == notNumber {
		return 0, false
	}
	fa, isA := a.(float64)
	fb, isB := b.(float64)
	switch {
	case isA && fa != fa || isB && fb != fb:
		return 0, false
	case isA && isB:
		return compareFloats(fa, fb), true
	// An infinity has no exact form, and is beyond every other number.
	case isA && math.IsInf(fa, 0):
		return int(math.Copysign(1, fa)), true
	case isB && math.IsInf(fb, 0):
		return -int(math.Copysign(1, fb)), true
	// A comparison as float64 would round: 2^53 and 2^53+1 differ.
	case isA || isB:
		return exactFloat(m, a).Cmp(exactFloat(m, b)), true
	}
	if max(ra, rb) == ranksDecimal {
		m.Convert(a, b) // to the same exponent
		return toDecimal(a).Cmp(toDecimal(b)), true
	}
	return toBig(a).Cmp(toBig(b)), true
}

// compareInts returns -1, 0 or 1.
func compareInts(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// compareFloats returns -1, 0 or 1 for numbers that are not NaN. NaN must have been excluded.
func compareFloats(a, b float64) int {
	// 0.0 and -0.0 are equal.
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// exactFloat returns a finite number as a rational, except that a decimal is rounded to 128 bits. 128 bits decide every
// comparison of a float with a decimal that differs in the first 38 digits.
func exactFloat(m *Meter, v Value) *big.Float {
	m.Convert(v)
	m.Convert(v) // to text, and from it
	switch v := v.(type) {
	case float64:
		return big.NewFloat(v)
	case int64:
		return new(big.Float).SetInt64(v)
	case *big.Int:
		return new(big.Float).SetInt(v)
	case *apd.Decimal:
		// Decimals have no finite binary form in general. 128 bits are more than twice a float's.
		f, _, err := big.ParseFloat(v.String(), 10, 128, big.ToNearestEven)
		if err == nil {
			return f
		}
	}
	return new(big.Float)
}

// Equal reports whether two values are equal: numbers by value, tables by identity. Values of different types are not
// equal, except numbers. It never fails.
func Equal(m *Meter, a, b Value) bool {
	// Compare counts the work, also for strings.
	if order, ok := Compare(m, a, b); ok {
		return order == 0
	}
	// A NaN, or a number and something else.
	if rankOf(a) != notNumber || rankOf(b) != notNumber {
		return false
	}
	// Strings and booleans by value; tables and functions are pointers.
	return a == b
}

// Negate returns -v. v must be a number. The least int64 stays, as it wraps. For other values the result is nil.
func Negate(m *Meter, v Value) Value {
	// Exact numbers are immutable, so the result is a new one.
	m.Alloc(numberBytes(v))
	switch v := v.(type) {
	case int64:
		return -v
	case *big.Int:
		return new(big.Int).Neg(v)
	case *apd.Decimal:
		return new(apd.Decimal).Neg(v)
	case float64:
		return -v
	}
	return nil
}

// NumberText returns a number as text. Floats that are whole have ".0". Decimals with extreme exponents are written
// with an exponent.
func NumberText(m *Meter, v Value) string {
	m.Convert(v)
	// A digit takes about 3.3 bits: the text is some 2.4 times as long as the number.
	m.Alloc(3 * numberBytes(v))
	return numberText(v)
}

// numberText is NumberText without a meter, for numbers of bounded size. Callers with a meter use NumberText.
func numberText(v Value) string {
	switch v := v.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case *big.Int:
		return v.String()
	case *apd.Decimal:
		if v.Exponent > plainExponentMax || v.Exponent < -plainExponentMax {
			return v.String()
		}
		// Without an exponent as long as that adds few zeros.
		return v.Text('f')
	case float64:
		return floatText(v)
	}
	return ""
}

// floatText returns a text that parses as the same float and never as an integer. The format equals Lua's tostring,
// with the names nan, inf and -inf. Package java has its own format.
func floatText(v float64) string {
	switch {
	case v != v:
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	// 17 digits identify every float64. A shorter text that does so is preferred.
	text := strconv.FormatFloat(v, 'g', 17, 64)
	if short := strconv.FormatFloat(v, 'g', -1, 64); len(short) < len(text) {
		text = short
	}
	// A whole number would be read back as an integer.
	if !strings.ContainsAny(text, ".en") {
		text += ".0"
	}
	return text
}

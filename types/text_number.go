package types

import (
	"bytes"
	"math"
	"math/big"
	"strconv"
	"strings"

	"cqld/types/number"
)

// floatFromText parses a float or double. Words for the special values are accepted without case.
func floatFromText(t *Type, text string) ([]byte, error) {
	// A float is parsed with 32 bits: rounding to a double first could round twice.
	bits, word := 64, "double"
	if t.kind == Float {
		bits, word = 32, "float"
	}
	f, ok := specialFloat(text)
	if !ok {
		if !isDecimalText(text) {
			return nil, valueError(t.kind, "Unable to make %s from '%s'", word, text)
		}
		// Beyond the range, the nearest value is an infinity, as in Java.
		f, _ = strconv.ParseFloat(text, bits)
	}
	if t.kind == Float {
		return appendBE32(nil, floatBits32(float32(f))), nil
	}
	return appendBE64(nil, floatBits64(f)), nil
}

// specialFloat returns NaN or an infinity if text is its name.
func specialFloat(text string) (float64, bool) {
	switch strings.ToLower(text) {
	case "nan", "-nan":
		return math.NaN(), true
	case "infinity":
		return math.Inf(1), true
	case "-infinity":
		return math.Inf(-1), true
	}
	return 0, false
}

// floatBits32 returns the bits of f. For any NaN, it returns the bits of Java's NaN, so that stored NaNs are equal.
func floatBits32(f float32) uint32 {
	if f != f {
		return 0x7FC00000
	}
	return math.Float32bits(f)
}

// floatBits64 is floatBits32 for a double.
func floatBits64(f float64) uint64 {
	if f != f {
		return 0x7FF8000000000000
	}
	return math.Float64bits(f)
}

// isDecimalText accepts [-]digits[.digits][e[±]digits], with digits on one side of the point. It excludes forms that
// only Go's parser accepts: hexadecimal numbers and underscores.
func isDecimalText(s string) bool {
	_, _, _, ok := splitDecimal(s)
	return ok
}

// splitDecimal splits a decimal into its sign and digits without the point, the number of digits after the point, and
// the exponent's text. The digits begin with a minus sign for negative numbers. exponent is empty if there is none.
func splitDecimal(s string) (digits string, point int, exponent string, ok bool) {
	mantissa, hasExponent := s, false
	// Without e or E, the whole text is the mantissa.
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent, hasExponent = s[:i], s[i+1:], true
	}
	sign := ""
	if mantissa != "" && (mantissa[0] == '-' || mantissa[0] == '+') {
		// A plus sign is dropped.
		sign, mantissa = strings.TrimPrefix(mantissa[:1], "+"), mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = whole + fraction
	unsigned := strings.TrimLeft(exponent, "+-")
	// The exponent may have one sign.
	if !allDigits(digits) || hasExponent && (!allDigits(unsigned) || len(exponent)-len(unsigned) > 1) {
		return "", 0, "", false
	}
	return sign + digits, len(fraction), exponent, true
}

// decimalFromText keeps the written scale: 1.50 is 150 with scale 2, 1e3 is 1 with scale -3. It rejects scales beyond
// 32 bits, and more than literalDigitsMax digits. The error is a *ValueError.
func decimalFromText(text string) ([]byte, error) {
	digits, point, exponent, ok := splitDecimal(text)
	if !ok || len(strings.TrimPrefix(digits, "-")) > literalDigitsMax {
		return nil, valueError(Decimal, "unable to make BigDecimal from '%s'", text)
	}
	// Each digit after the point increases the scale, and a positive exponent reduces it.
	scale := int64(point)
	if exponent != "" {
		e, err := strconv.ParseInt(exponent, 10, 64)
		// The bounds keep the subtraction below from overflowing.
		if err != nil || e > math.MaxInt32+1 || e < -math.MaxInt32 {
			return nil, valueError(Decimal, "unable to make BigDecimal from '%s'", text)
		}
		scale -= e
	}
	if scale != int64(int32(scale)) {
		return nil, valueError(Decimal, "unable to make BigDecimal from '%s'", text)
	}
	// splitDecimal has checked the digits. -0 becomes 0, because decimals have no negative zero.
	x, _ := new(big.Int).SetString(digits, 10)
	return number.Append(appendBE32(nil, uint32(scale)), x), nil
}

// appendFloatText appends f as Java prints it: at least one digit on either side of the point, and an exponent below
// 10^-3 and from 10^7 on. bits is 32 or 64. The digits are the fewest that parse back to f, as in Java since version
// 19; earlier versions sometimes printed one more.
//
//	1       1.0        0.001    0.001
//	1e7     1.0E7      0.0001   1.0E-4
func appendFloatText(dst []byte, f float64, bits int) []byte {
	switch {
	case f != f:
		return append(dst, "NaN"...)
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	}
	if a := math.Abs(f); a == 0 || a >= 1e-3 && a < 1e7 {
		start := len(dst)
		// Go prints whole numbers without a point.
		dst = strconv.AppendFloat(dst, f, 'f', -1, bits)
		if bytes.IndexByte(dst[start:], '.') < 0 {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	var buf [32]byte
	b := strconv.AppendFloat(buf[:0], f, 'e', -1, bits)
	// One digit has no point: Java prints two.
	if bytes.IndexByte(b, '.') < 0 {
		b = twoDigits(buf[:0], f, bits)
	}
	// FormatFloat always writes an exponent in this format.
	mantissa, exponent, _ := bytes.Cut(b, []byte{'e'})
	dst = append(append(dst, mantissa...), 'E')
	// Omit the plus sign and the leading zeros that Go writes.
	n, _ := strconv.Atoi(string(exponent))
	return strconv.AppendInt(dst, int64(n), 10)
}

// twoDigits prints f, for which one digit is sufficient, with two: the nearest two that parse back to f. Only for
// floats near zero may these fail to parse back. Then the second digit is zero.
func twoDigits(buf []byte, f float64, bits int) []byte {
	b := strconv.AppendFloat(buf, f, 'e', 1, bits)
	if back, _ := strconv.ParseFloat(string(b), bits); back == f {
		return b
	}
	// Fall back to the shortest form, which parses back, with a zero after the point.
	one := strconv.FormatFloat(f, 'e', -1, bits)
	i := strings.IndexByte(one, 'e')
	return append(append(append(buf[:0], one[:i]...), ".0"...), one[i:]...)
}

// float64FromBits returns the double with these bits.
func float64FromBits(v uint64) float64 { return math.Float64frombits(v) }

// float32FromBits returns the float with these bits.
func float32FromBits(v uint32) float32 { return math.Float32frombits(v) }

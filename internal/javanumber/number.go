package javanumber

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// ParseInt parses a decimal number of at most bits bits as Java's parseInt does: digits of all scripts count, and a
// sign may precede. A number outside of bits bits, or a text that is no number, is an error of strconv.
func ParseInt(text string, bits int) (int64, error) {
	return strconv.ParseInt(asciiDigits(text), 10, bits)
}

// ParseUnsigned is ParseInt for 32 bits without a sign.
func ParseUnsigned(text string) (n int64, ok bool) {
	text = asciiDigits(text)
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 32)
	return n, err == nil
}

// asciiDigits replaces the decimal digits of the basic multilingual plane, which are in sequences from 0 to 9, by ASCII
// digits. Digits of supplementary planes stay, and are then refused.
func asciiDigits(text string) string {
	return strings.Map(func(r rune) rune {
		for _, digits := range unicode.Nd.R16 {
			if rune(digits.Lo) <= r && r <= rune(digits.Hi) {
				return '0' + (r-rune(digits.Lo))%10
			}
		}
		return r
	}, text)
}

// ParseDouble parses a number as Java's parseDouble does: control characters and spaces around it and the suffixes f
// and d are ignored, and NaN and Infinity are numbers only in this spelling, with at most one sign. A number that is
// too large is infinite. A hexadecimal number needs an exponent after p.
func ParseDouble(text string) (float64, error) {
	number := Trim(text)
	switch strings.TrimPrefix(strings.TrimPrefix(number, "+"), "-") {
	case "NaN":
		if strings.HasPrefix(number, "+-") {
			return 0, strconv.ErrSyntax
		}
		return math.NaN(), nil
	case "Infinity":
		return strconv.ParseFloat(number, 64)
	}
	if n := len(number); n > 1 && strings.ContainsRune("fFdD", rune(number[n-1])) {
		number = number[:n-1]
	}
	allowed := "0123456789.eE+-"
	if strings.ContainsAny(number, "xX") {
		allowed += "abcdfABCDFxXpP"
	}
	// ParseFloat accepts more than Java: underscores in hexadecimal numbers, and inf and nan in any case.
	if strings.ContainsFunc(number, func(r rune) bool { return !strings.ContainsRune(allowed, r) }) {
		return 0, strconv.ErrSyntax
	}
	f, err := strconv.ParseFloat(number, 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil
	}
	return f, err
}

// Trim removes what Java's String.trim does: control characters and spaces at both ends.
func Trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
}

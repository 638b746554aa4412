package value

import (
	"math/big"

	"github.com/cockroachdb/apd/v3"
)

// numberBytesMax bounds the strings that are converted to numbers: the conversion takes quadratic time. A text of
// 1000 digits takes 16 us, which is counted as 40 operations and the allocation.
const (
	numberBytesMax      = 1000
	digitsPerConversion = 25
)

// MayParse counts the conversion of a text to a number before it is done. It returns false for a text that is too
// long to be one. Call it before strconv, big or apd parse the text.
func MayParse(m *Meter, s string) bool {
	// Do not count work, because the text is not parsed.
	if len(s) > numberBytesMax {
		return false
	}
	m.Work(int64(len(s)) / digitsPerConversion)
	m.Alloc(int64(64 + len(s)))
	return true
}

// ParseInteger converts digits to an integer. The text must consist of decimal digits with an optional sign, + or -,
// without white space; otherwise ok is false. Only the length of the text bounds the number.
func ParseInteger(m *Meter, s string) (*big.Int, bool) {
	if !MayParse(m, s) {
		return nil, false
	}
	return new(big.Int).SetString(s, 10)
}

// ParseDecimal converts a text to a finite decimal number. The text may have an exponent. NaN and infinities are
// refused.
func ParseDecimal(m *Meter, s string) (*apd.Decimal, bool) {
	if !MayParse(m, s) {
		return nil, false
	}
	// It also accepts NaN and Infinity, which CQL's decimal does not have.
	d, _, err := apd.NewFromString(s)
	return d, err == nil && d.Form == apd.Finite
}

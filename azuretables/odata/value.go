package odata

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
)

// convert replaces the raw value by the property's value, in place. Its type is the annotated one, or else follows from
// the JSON form: a string is a String, an integer what inferred says, any other number a Double. (The service's OData
// library reads numbers in this way; an Int64 must be annotated.) Binary and GUID are decoded into the memory of their
// text. A type that does not fit the JSON form is a malformed body. The error is PropertyValueTooLarge, OutOfRangeInput
// or InvalidInput.
//
// It is called once for each value.
func (r *raw) convert(l *Limits) error {
	if r.Type == 0 {
		r.Type = r.inferred()
	}
	// Exactly one of b, n and f is set, by the type.
	var (
		b  []byte
		n  int64
		f  float64
		ok bool
	)
	//exhaustive:enforce
	switch r.Type {
	case String:
		b, ok = r.Bytes, r.kind() == text
		// Checked in UTF-16, whose size is at most twice the number of bytes.
		if ok && 2*len(b) > l.ValueBytes && 2*utf16LenBytes(b) > l.ValueBytes {
			return beyond(PropertyValueTooLarge, l.ValueBytes, valueBytes)
		}
	case Binary:
		if b, ok = r.binary(); ok && len(b) > l.ValueBytes {
			return beyond(PropertyValueTooLarge, l.ValueBytes, valueBytes)
		}
	case Boolean:
		n, ok = r.boolean()
	case DateTime:
		n, ok = ParseDateTime(r.Bytes)
		// ParseDateTime accepts the years 1 to 9999, the service only the years from 1601.
		if ok = ok && r.kind() == text; ok && n < MinDateTime {
			return newError(OutOfRangeInput)
		}
	case Double:
		f, ok = r.double()
	case GUID:
		if r.kind() == text {
			// The 16 bytes overwrite the beginning of the text.
			b, ok = parseGUID(r.Bytes, r.Bytes)
		}
	case Int32:
		n, ok = r.int(32)
	case Int64:
		n, ok = r.int(64)
	}
	if !ok {
		return errBody()
	}
	// This also removes the kind and the name's position: r is a Value from here on.
	r.Bytes, r.Int, r.Float = b, n, f
	return nil
}

// inferred returns the type of a value without a type. An integer that a Double would change is an Int64; if it is too
// large for that, too, it has the type Int64 nevertheless, so that it is refused and not changed. The service rounds
// it. null never reaches it.
//
// It is a deliberate difference from the service: no number that a client sends is stored as another one.
func (r *raw) inferred() Type {
	switch r.kind() {
	case text:
		return String
	case integer:
		// Int32 first: it is what the service infers for small integers.
		if _, ok := r.int(32); ok {
			return Int32
		}
		if r.doubleKeepsDigits() {
			return Double
		}
		return Int64
	case number:
		return Double
	}
	// yes and no.
	return Boolean
}

// exactDigits is the number of decimal digits that each Double keeps. 2^53 has 16 digits.
const exactDigits = 15

// doubleKeepsDigits reports whether the shortest decimal representation of the nearest Double has the digits of an
// integer. Clients whose numbers are floating-point send such integers: 1e17 as 100000000000000000. It compares text,
// because a comparison of numbers would hide rounding.
func (r *raw) doubleKeepsDigits() bool {
	// No more digits than every Double keeps.
	if len(r.Bytes) <= exactDigits {
		return true
	}
	f, ok := r.double()
	if !ok {
		return false
	}
	var printed [32]byte
	// 'f' prints no exponent, like the text of an integer.
	return string(strconv.AppendFloat(printed[:0], f, 'f', -1, 64)) == string(r.Bytes)
}

// binary decodes base64 in place: four characters become three bytes, so that it never overwrites unread input. Line
// breaks in the text are ignored, as by the standard library. Padding is required.
func (r *raw) binary() ([]byte, bool) {
	if r.kind() != text {
		return nil, false
	}
	n, err := base64.StdEncoding.Decode(r.Bytes, r.Bytes)
	return r.Bytes[:n], err == nil
}

// boolean parses true and false, as literals or as strings. Strings are compared without case. "True", as .NET writes
// it, is accepted.
func (r *raw) boolean() (int64, bool) {
	switch {
	case r.kind() == yes, r.kind() == text && strings.EqualFold(string(r.Bytes), "true"):
		return 1, true
	case r.kind() == no, r.kind() == text && strings.EqualFold(string(r.Bytes), "false"):
		return 0, true
	}
	return 0, false
}

// int parses an integer, as a number or as a string. size is 32 or 64 bits. Numbers with a fraction are no integers,
// even if it is zero. A plus sign is not allowed. Leading zeros in a string are accepted.
func (r *raw) int(size int) (int64, bool) {
	if r.kind() != integer && r.kind() != text {
		return 0, false
	}
	return parseInt(r.Bytes, size)
}

// parseInt parses decimal digits with an optional minus sign. ok is false if the value does not fit size bits. It does
// not allocate, unlike strconv with a slice of bytes.
func parseInt[T ~string | ~[]byte](t T, size int) (int64, bool) {
	negative := len(t) > 0 && t[0] == '-'
	i := 0
	if negative {
		i = 1
	}
	// Nineteen digits cannot overflow n, so that the range is checked once, at the end.
	if len(t) == i || len(t) > i+19 {
		return 0, false
	}
	var n uint64
	for ; i < len(t); i++ {
		// A byte below '0' wraps to more than 9.
		c := t[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	bound := uint64(1)<<(size-1) - 1
	if negative {
		// The smallest negative integer has one more than the bound.
		return -int64(n), n <= bound+1
	}
	return int64(n), n <= bound
}

// double parses a number, or a string that contains a number, NaN, Infinity or -Infinity. A string with white space
// around the number is refused.
func (r *raw) double() (float64, bool) {
	switch r.kind() {
	case number, integer:
		return parseDouble(r.Bytes)
	case text:
		// Clients of JSON write these as strings. INF is the name in $filter and XML.
		switch string(r.Bytes) {
		case "NaN":
			return math.NaN(), true
		case "Infinity", "INF":
			return math.Inf(1), true
		case "-Infinity", "-INF":
			return math.Inf(-1), true
		}
		if len(r.Bytes) > 0 && scanNumber(r.Bytes) == len(r.Bytes) {
			return parseDouble(r.Bytes)
		}
	}
	return 0, false
}

// parseDouble parses a number in JSON's format. A number with few digits and without an exponent is the quotient of two
// exact float64s, which is rounded correctly (Clinger, "How to read floating point numbers accurately"). t is valid, so
// that the fast path need not check its syntax. -0.0 keeps its sign: it has a sign, so strconv parses it.
func parseDouble[T ~string | ~[]byte](t T) (float64, bool) {
	// At most 15 digits: the mantissa is below 2^53, and a power of ten up to 10^22 is exact.
	if len(t) <= 16 {
		mantissa, divisor, point := int64(0), float64(1), false
		i := 0
		for ; i < len(t); i++ {
			c := t[i] - '0'
			if c <= 9 {
				mantissa = mantissa*10 + int64(c)
				if point {
					divisor *= 10
				}
			} else if t[i] == '.' && !point {
				point = true
			} else {
				// A sign, an exponent, or a second point: strconv parses it.
				break
			}
		}
		if i == len(t) && (len(t) < 16 || point) {
			return float64(mantissa) / divisor, true
		}
	}
	// A number that is too large is an error.
	f, err := strconv.ParseFloat(string(t), 64)
	return f, err == nil
}

// parseGUID parses a GUID, with or without hyphens, braces or parentheses, and writes its bytes to space (16 bytes, or
// the text itself). space may be the text itself: each byte is written after its digits were read. Digits may be in
// either case. ok is false for any other form.
func parseGUID[T ~string | ~[]byte](t T, space []byte) ([]byte, bool) {
	if len(t) == 38 && (t[0] == '{' && t[37] == '}' || t[0] == '(' && t[37] == ')') {
		t = t[1:37]
	}
	// Thirty-two digits, or groups of 8-4-4-4-12 that are separated by hyphens.
	hyphens := len(t) == 36
	if !hyphens && len(t) != 32 || hyphens && (t[8] != '-' || t[13] != '-' || t[18] != '-' || t[23] != '-') {
		return nil, false
	}
	i := 0
	for n := range 16 {
		if hyphens && (n == 4 || n == 6 || n == 8 || n == 10) {
			i++
		}
		high, ok1 := hexDigit(t[i])
		low, ok2 := hexDigit(t[i+1])
		if !ok1 || !ok2 {
			return nil, false
		}
		space[n] = high<<4 | low
		i += 2
	}
	// The capacity is cut, because space may be longer.
	return space[:16:16], true
}

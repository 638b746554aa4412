package odata

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
)

// convert makes a value of what stood in the JSON: the annotated type, or else the one that the form tells:
// a string is a String, an integer an Int32, or a Double when it is too large for that, any other number a
// Double. (That is how the service's OData library reads numbers; an Int64 must be annotated.)
func (d *decoder) convert(s *slot, v *Value) error {
	t := s.annotated
	if t == 0 {
		t = s.inferred()
	}
	v.Type = t
	var ok bool
	switch t {
	case String:
		return d.convertString(s, v)
	case Binary:
		return d.convertBinary(s, v)
	case Boolean:
		v.Int, ok = s.boolean()
	case DateTime:
		if v.Int, ok = ParseDateTime(s.text); ok && (v.Int < MinDateTime || v.Int > MaxDateTime) {
			return newError(OutOfRangeInput)
		}
		ok = ok && s.kind == text
	case Double:
		v.Float, ok = s.double()
	case GUID:
		ok = s.kind == text
		if ok {
			v.Bytes, ok = parseGUID(s.text, s.text)
		}
	case Int32:
		v.Int, ok = s.int(32)
	case Int64:
		v.Int, ok = s.int(64)
	}
	if !ok {
		return errBody()
	}
	return nil
}

func (s *slot) inferred() Type {
	switch s.kind {
	case text:
		return String
	case integer:
		if _, ok := s.int(32); ok {
			return Int32
		}
		return Double
	case number:
		return Double
	}
	return Boolean
}

func (d *decoder) convertString(s *slot, v *Value) error {
	if s.kind != text {
		return errBody()
	}
	v.Bytes = s.text
	if 2*len(v.Bytes) > d.limits.ValueBytes && 2*utf16LenBytes(v.Bytes) > d.limits.ValueBytes {
		return newError(PropertyValueTooLarge)
	}
	return nil
}

func (d *decoder) convertBinary(s *slot, v *Value) error {
	if s.kind != text {
		return errBody()
	}
	// Four characters become three bytes, so that what is written is behind what is read.
	n, err := base64.StdEncoding.Decode(s.text, s.text)
	if err != nil {
		return errBody()
	}
	v.Bytes = s.text[:n]
	if n > d.limits.ValueBytes {
		return newError(PropertyValueTooLarge)
	}
	return nil
}

// boolean reads true and false, as words or as strings.
func (s *slot) boolean() (int64, bool) {
	switch {
	case s.kind == yes, s.kind == text && strings.EqualFold(string(s.text), "true"):
		return 1, true
	case s.kind == no, s.kind == text && strings.EqualFold(string(s.text), "false"):
		return 0, true
	}
	return 0, false
}

// int reads an integer, as a number or as a string.
func (s *slot) int(size int) (int64, bool) {
	if s.kind != integer && s.kind != text {
		return 0, false
	}
	return parseInt(s.text, size)
}

func parseInt[T ~string | ~[]byte](t T, size int) (int64, bool) {
	negative := len(t) > 0 && t[0] == '-'
	i := 0
	if negative {
		i = 1
	}
	if len(t) == i || len(t) > i+19 {
		return 0, false
	}
	var n uint64
	for ; i < len(t); i++ {
		c := t[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	bound := uint64(1)<<(size-1) - 1
	if negative {
		return -int64(n), n <= bound+1
	}
	return int64(n), n <= bound
}

// double reads a number, or a string that is one or NaN, Infinity, -Infinity.
func (s *slot) double() (float64, bool) {
	switch s.kind {
	case number, integer:
		return parseDouble(s.text)
	case text:
		switch string(s.text) {
		case "NaN":
			return math.NaN(), true
		case "Infinity", "INF":
			return math.Inf(1), true
		case "-Infinity", "-INF":
			return math.Inf(-1), true
		}
		if len(s.text) > 0 && scanNumber(s.text) == len(s.text) {
			return parseDouble(s.text)
		}
	}
	return 0, false
}

func parseDouble[T ~string | ~[]byte](t T) (float64, bool) {
	if len(t) <= 15 { // an integer of so few digits is exact
		if n, ok := parseInt(t, 64); ok && n != 0 {
			return float64(n), true
		}
	}
	f, err := strconv.ParseFloat(string(t), 64)
	return f, err == nil
}

// parseGUID reads the text of a GUID, with or without hyphens, braces or parentheses, and puts its bytes
// into space (16 bytes, or the text itself).
func parseGUID[T ~string | ~[]byte](t T, space []byte) ([]byte, bool) {
	if len(t) == 38 && (t[0] == '{' && t[37] == '}' || t[0] == '(' && t[37] == ')') {
		t = t[1:37]
	}
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
	return space[:16:16], true
}

// ParseGUID is the 16 bytes of a GUID's text.
func ParseGUID(s string) ([16]byte, bool) {
	var b [16]byte
	_, ok := parseGUID(s, b[:])
	return b, ok
}

package types

import "unicode/utf8"

// AppendJSON appends a value in the form of SELECT JSON and to_json. Null, and floats that JSON does not have, become
// null; the empty value of types such as numbers becomes "". An invalid value, or a number that is too long, becomes a
// string with the blob.
//
//	numbers, boolean          as they are
//	text and other scalars    a string
//	timestamp                 a string, with a space between date and time
//	list, set, tuple, vector  an array
//	map                       an object, whose keys are strings
//	UDT                       an object with all fields
func (t *Type) AppendJSON(dst, wire []byte) []byte {
	switch {
	case wire == nil:
		return append(dst, "null"...)
	case len(wire) == 0 && (t.kind.EmptyIsNull() || t.IsEmpty()):
		return append(dst, `""`...)
	case t.Validate(wire) != nil || TooLongForText(t, wire):
		return append(appendBlobText(append(dst, '"'), wire), '"')
	}
	// Numbers and booleans are written without quotes.
	switch t.kind {
	case Bigint, Boolean, Counter, Decimal, Int, Smallint, Tinyint, Varint:
		return appendScalarText(t, dst, wire)
	case Double, Float:
		return appendJSONFloat(t, dst, wire)
	case Ascii, Text:
		return appendJSONString(dst, wire)
	// Unlike in CQL, a space separates date and time.
	case Timestamp:
		return append(AppendTimestampText(append(dst, '"'), int64(be64(wire)), ' '), '"')
	case List, Set, Tuple, Vector:
		return appendJSONArray(t, dst, wire)
	case Map:
		return appendJSONMap(t, dst, wire)
	case UDT:
		return appendJSONFields(t, dst, wire)
	}
	// All other scalars are strings.
	return append(appendScalarText(t, append(dst, '"'), wire), '"')
}

// appendJSONFloat appends a number as Java prints it, or null.
func appendJSONFloat(t *Type, dst, wire []byte) []byte {
	start := len(dst)
	// The last letter identifies the special values, because no number ends with it.
	dst = appendScalarText(t, dst, wire)
	if c := dst[len(dst)-1]; c == 'N' || c == 'y' { // NaN, Infinity
		return append(dst[:start], "null"...)
	}
	return dst
}

// appendJSONArray appends the parts as an array. A tuple always has all its fields.
func appendJSONArray(t *Type, dst, wire []byte) []byte {
	dst = append(dst, '[')
	// n is the number of parts written; the loop for missing fields continues from it.
	n := 0
	for p := t.Parts(wire); p.Next(); n++ {
		if n > 0 {
			dst = append(dst, ", "...)
		}
		dst = p.Type().AppendJSON(dst, p.Bytes())
	}
	// Fields that are missing at the end.
	if t.kind == Tuple {
		for ; n < len(t.elems); n++ {
			if n > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(dst, "null"...)
		}
	}
	return append(dst, ']')
}

// appendJSONMap writes every key as a string: a key that is a JSON string is unchanged, any other is quoted, as JSON
// within a string.
func appendJSONMap(t *Type, dst, wire []byte) []byte {
	dst = append(dst, '{')
	var key []byte
	for p := t.Parts(wire); p.Next(); {
		if p.Index()%2 == 1 {
			dst = t.elems[1].AppendJSON(append(dst, ": "...), p.Bytes())
			continue
		}
		if p.Index() > 0 {
			dst = append(dst, ", "...)
		}
		// The buffer is reused for the next key.
		key = t.elems[0].AppendJSON(key[:0], p.Bytes())
		if key[0] == '"' {
			dst = append(dst, key...)
		} else {
			dst = appendJSONString(dst, key)
		}
	}
	return append(dst, '}')
}

// appendJSONFields includes all fields, even fields that are missing in a value written before ALTER TYPE.
func appendJSONFields(t *Type, dst, wire []byte) []byte {
	dst = append(dst, '{')
	// Parts, field names and field types have the same positions.
	n := 0
	field := func(i int, part []byte) {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(AppendJSONName(dst, t.fields[i]), ": "...)
		dst = t.elems[i].AppendJSON(dst, part)
	}
	for p := t.Parts(wire); p.Next(); n++ {
		field(n, p.Bytes())
	}
	for ; n < len(t.elems); n++ {
		field(n, nil)
	}
	return append(dst, '}')
}

// AppendJSONName appends the name of a column or field as a key of a JSON object. A case-sensitive name has its double
// quotes inside the string, so that INSERT JSON reads it back. Only upper-case letters make a name case-sensitive here,
// as in Cassandra.
func AppendJSONName(dst []byte, name string) []byte {
	// Names with other special characters need no quotes, because they are already in lower case.
	for i := range len(name) {
		if c := name[i]; c >= 'A' && c <= 'Z' {
			return appendJSONString(dst, []byte(`"`+name+`"`))
		}
	}
	return appendJSONString(dst, []byte(name))
}

// appendJSONString appends s as a JSON string, with Cassandra's escapes.
func appendJSONString(dst, s []byte) []byte {
	dst = append(dst, '"')
	// Characters beyond ASCII are written as they are, not as \u escapes.
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRune(s[i:])
			dst = utf8.AppendRune(dst, r) // invalid UTF-8 becomes U+FFFD
			i += size
			continue
		}
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\b':
			dst = append(dst, '\\', 'b')
		case c == '\f':
			dst = append(dst, '\\', 'f')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < ' ':
			// Control characters need two digits.
			dst = append(dst, '\\', 'u', '0', '0', '0'+c>>4, "0123456789ABCDEF"[c&0xF])
		default:
			dst = append(dst, c)
		}
		i++
	}
	return append(dst, '"')
}

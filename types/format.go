package types

import (
	"encoding/hex"
	"net/netip"
	"strconv"

	"cqld/types/number"
)

// AppendLiteral appends a value as Cassandra prints it: a CQL literal that FromLiteral, or a collection literal, parses
// back. Null, and the empty value of types other than texts, are "null". Bytes that are not a value of the type are
// printed as a blob, and so are numbers that are too long. DESCRIBE and messages use it.
//
//	text 'it''s'          list ['a', 'b']       map {'k': 1}
//	tuple (1, null)       UDT {f: 1}            blob 0x00ff
//	timestamp '1970-01-01T00:00:00.000Z'
func (t *Type) AppendLiteral(dst, wire []byte) []byte {
	switch {
	case wire == nil:
		return append(dst, "null"...)
	case len(wire) == 0 && t.kind.EmptyIsNull():
		return append(dst, "null"...)
	case t.Validate(wire) != nil || TooLongForText(t, wire):
		return appendBlobText(dst, wire)
	}
	// Only these are quoted. Numbers, UUIDs, blobs and durations are separate tokens.
	switch t.kind {
	case Ascii, Text:
		return appendQuoted(dst, wire)
	case Date, Inet, Time, Timestamp:
		return append(appendScalarText(t, append(dst, '\''), wire), '\'')
	case List, Vector:
		return appendLiterals(t, dst, wire, '[', ']')
	case Set, Map:
		return appendLiterals(t, dst, wire, '{', '}')
	case Tuple:
		return appendLiterals(t, dst, wire, '(', ')')
	case UDT:
		return appendFieldLiterals(t, dst, wire)
	}
	return appendScalarText(t, dst, wire)
}

// AppendText appends a value like AppendLiteral, but without quotes around scalars: the form in messages and in a cast
// to text. The text of the empty value is empty. Parts of collections have their quotes.
func (t *Type) AppendText(dst, wire []byte) []byte {
	switch {
	case wire == nil:
		return append(dst, "null"...)
	// List is the first kind with parts.
	case len(wire) == 0 && t.kind < List:
		return dst
	// Custom types, too: their literals have no quotes.
	case t.kind >= List:
		return t.AppendLiteral(dst, wire)
	case t.Validate(wire) != nil || TooLongForText(t, wire):
		return appendBlobText(dst, wire)
	}
	return appendScalarText(t, dst, wire)
}

// appendScalarText appends the text of a valid, non-empty value of a scalar type, or of a custom type.
func appendScalarText(t *Type, dst, wire []byte) []byte {
	// A LexicalUUIDType has the text of a UUID. Other classes are shown as bytes.
	if t.kind == Custom {
		if legacyKindOf(t) == lexicalUUID {
			return appendUUIDText(dst, wire)
		}
		return appendBlobText(dst, wire)
	}
	switch t.kind {
	case Ascii, Text:
		return append(dst, wire...)
	// The length of the value is the size of its kind, so one conversion serves all of them.
	case Bigint, Counter, Int, Smallint, Tinyint:
		return strconv.AppendInt(dst, number.Int64(wire), 10)
	case Boolean:
		return strconv.AppendBool(dst, wire[0] != 0)
	case Date:
		return AppendDateText(dst, be32(wire))
	case Decimal:
		return number.AppendDecimalText(dst, wire)
	case Double:
		return appendFloatText(dst, float64FromBits(be64(wire)), 64)
	case Duration:
		d, _ := DecodeDuration(wire)
		return d.AppendText(dst)
	case Float:
		return appendFloatText(dst, float64(float32FromBits(be32(wire))), 32)
	case Inet:
		return appendInetText(dst, wire)
	case Time:
		return AppendTimeText(dst, int64(be64(wire)))
	case Timestamp:
		return AppendTimestampText(dst, int64(be64(wire)), 'T')
	case Timeuuid, UUID:
		return appendUUIDText(dst, wire)
	case Varint:
		// The usual case needs no big.Int.
		if len(wire) <= 8 {
			return strconv.AppendInt(dst, number.Int64(wire), 10)
		}
		return number.Big(wire).Append(dst, 10)
	}
	return appendBlobText(dst, wire)
}

// appendBlobText appends bytes as a blob constant in lower case.
func appendBlobText(dst, wire []byte) []byte {
	return hex.AppendEncode(append(dst, "0x"...), wire)
}

// appendQuoted appends a string constant. Quotes are doubled; nothing else is escaped in CQL.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '\'')
	for _, c := range text {
		if c == '\'' {
			dst = append(dst, '\'')
		}
		dst = append(dst, c)
	}
	return append(dst, '\'')
}

// appendInetText formats IPv6 like Java: eight groups, without abbreviation. An IPv4 address in IPv6 form is printed as
// IPv4. For example, ::1 is 0:0:0:0:0:0:0:1, and ::ffff:1.2.3.4 is 1.2.3.4.
func appendInetText(dst, wire []byte) []byte {
	// The length was validated.
	a, _ := netip.AddrFromSlice(wire)
	a = a.Unmap()
	if a.Is4() {
		return a.AppendTo(dst)
	}
	for i := 0; i < 16; i += 2 {
		if i > 0 {
			dst = append(dst, ':')
		}
		dst = strconv.AppendUint(dst, uint64(be16(wire[i:])), 16)
	}
	return dst
}

// appendUUIDText appends the 8-4-4-4-12 form of 16 bytes.
func appendUUIDText(dst, wire []byte) []byte {
	// The groups end at these bytes; the groups between the first and the last have two bytes.
	for i, end := range []int{4, 6, 8, 10, 16} {
		start := 0
		if i > 0 {
			dst = append(dst, '-')
			start = 2 + 2*i
		}
		dst = hex.AppendEncode(dst, wire[start:end])
	}
	return dst
}

// appendLiterals appends the parts in brackets, with their types' literals.
func appendLiterals(t *Type, dst, b []byte, open, end byte) []byte {
	dst = append(dst, open)
	// A map has a colon after each key. All other parts are separated by commas.
	for p := t.Parts(b); p.Next(); {
		i := p.Index()
		switch {
		case t.kind == Map && i%2 == 1:
			dst = append(dst, ": "...)
		case i > 0:
			dst = append(dst, ", "...)
		}
		dst = p.Type().AppendLiteral(dst, p.Bytes())
	}
	return append(dst, end)
}

// appendFieldLiterals appends the literal of a user-defined type. Missing fields are left out, null ones are not.
func appendFieldLiterals(t *Type, dst, b []byte) []byte {
	dst = append(dst, '{')
	for p := t.Parts(b); p.Next(); {
		if p.Index() > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(append(dst, QuoteName(t.fields[p.Index()])...), ": "...)
		dst = p.Type().AppendLiteral(dst, p.Bytes())
	}
	return append(dst, '}')
}

// NumberTextMax is the size, in bytes, of the longest varint or decimal that is formatted as a number: about 157,800
// digits. Values of columns may be longer.
const NumberTextMax = 64 << 10

// TooLongForText reports whether wire, a value of t, is a number whose conversion to decimal digits would take too
// much time. Such a number is formatted as a blob in text and JSON.
func TooLongForText(t *Type, wire []byte) bool {
	return len(wire) > NumberTextMax && (t.kind == Varint || t.kind == Decimal)
}

package types

import (
	"bytes"
	"errors"
	"fmt"
)

// The ordered form of a component is a tag, then the value, encoded so that memcmp order is type order.
//
//	null       01
//	empty      02                     the zero-length value
//	value      03 body
//	malformed  04 escaped bytes 00 01 bytes that are invalid for the type; kept, and sorted last
//
// Examples:
//
//	null                01
//	int 1               03 80000001
//	int 1, descending   FC 7FFFFFFE
//	text 'a'            03 61 0001
//	text 'a', NUL       03 61 00FF 0001
//	varint 5            03 81 05
//	varint -1           03 7E FF
//	decimal 12.3        03 03 8000000002 0D 1F 00
//	tuple (1, null)     03 0380000001 00
//
// Every body is self-delimiting: it has a fixed length, or a terminator after which no body continues. So no component
// is a proper prefix of another, and components can be concatenated. Descending order inverts every byte, including the
// tag. Hence a component begins with neither 00 nor FF. For any sequence of components p, p sorts before every longer
// key that begins with p, and p followed by FF sorts after it.
//
// Stored keys have this form: it must not change for any value.
const (
	tagNull      = 0x01
	tagEmpty     = 0x02
	tagValue     = 0x03
	tagMalformed = 0x04

	// bodyEnd terminates the elements of a list, set, map, tuple or UDT. It sorts before every tag, so of two values
	// with equal beginnings, the shorter sorts first. No element begins with it.
	bodyEnd = 0x00

	// Variable-length bytes: 00 is escaped as 00 FF, and 00 01 is the terminator. A text therefore sorts before its
	// continuations, also if they begin with a zero byte.
	escape           = 0x00
	escapedZero      = 0xFF
	escapeTerminator = 0x01
)

// ErrOrdered means that bytes are not the ordered form of any value of the type (errors.Is). It is a sign of damage,
// not of a client's mistake.
var ErrOrdered = errors.New("types: malformed ordered key")

// AppendOrdered appends the order-preserving form of a value: bytes.Compare of two such forms has the sign of Compare
// of the values, inverted for desc. A nil wire is null.
//
// Values that compare equal have the same ordered form even if their wire forms differ: in a decimal's scale, the bits
// of a NaN, a boolean's non-zero byte, a varint's superfluous leading bytes, or a tuple's missing trailing fields.
// Duration has no order in CQL, and package schema does not allow it in keys; here it sorts as bytes.
// The value is encoded in ascending order first: all inner components are inverted together.
func (t *Type) AppendOrdered(dst, wire []byte, desc bool) []byte {
	start := len(dst)
	dst = appendOrdered(t, dst, wire)
	if desc {
		invert(dst[start:])
	}
	return dst
}

// ConsumeOrdered decodes one component from the front of src. It appends the value's wire form to dst; rest is the
// remainder of src. For null, wire is nil; for any value it is not nil, even if nothing was appended. The error is
// ErrOrdered; src may be of any origin.
//
// The result is a canonical wire form that compares equal to the original: a decimal has lost the trailing zeros of its
// fraction (scale 0 if it is a whole number of moderate size), a NaN is Java's, a varint is minimal, a tuple has all
// its fields.
func (t *Type) ConsumeOrdered(dst, src []byte, desc bool) (wire, rest []byte, err error) {
	// The reader inverts what it reads, so that all decoders below see the ascending form.
	r := orderedReader{src: src}
	if desc {
		r.mask = 0xFF
	}
	wire, null := consumeOrdered(t, dst, &r)
	// dst may contain a part of a value by now. The caller receives nil instead.
	if r.bad {
		return nil, nil, fmt.Errorf("%w of type %s", ErrOrdered, t)
	}
	if null {
		return nil, r.src, nil
	}
	// nil is null for the caller: append of nothing to a nil dst is nil.
	if wire == nil {
		wire = []byte{}
	}
	return wire, r.src, nil
}

// appendOrdered is AppendOrdered in ascending order. Parts are encoded with it.
func appendOrdered(t *Type, dst, wire []byte) []byte {
	if len(wire) == 0 {
		if wire == nil {
			return append(dst, tagNull)
		}
		return append(dst, tagEmpty)
	}
	// The usual types: one branch, and nothing to undo.
	if n := fixedSize(t.kind); n != 0 {
		if len(wire) != n {
			return appendMalformed(dst, wire)
		}
		return appendOrderedFixed(append(dst, tagValue), t.kind, wire)
	}
	// The tag is appended before it is known whether the value is valid.
	start := len(dst)
	dst = append(dst, tagValue)
	var ok bool
	switch t.kind {
	case Varint:
		// A varint has no malformed form: any bytes are a number.
		return appendOrderedVarint(dst, wire)
	case Decimal:
		dst, ok = appendOrderedDecimal(dst, wire)
	case List, Set, Map:
		dst, ok = appendOrderedCollection(t, dst, wire)
	case Tuple, UDT:
		dst, ok = appendOrderedFields(t, dst, wire)
	case Vector:
		dst, ok = appendOrderedVector(t, dst, wire)
	case Custom:
		dst, ok = appendOrderedLegacy(t, dst, wire)
	default: // ascii, blob, duration, inet, text
		return appendEscaped(dst, wire)
	}
	// Drop the output of the failed encoder.
	if !ok {
		return appendMalformed(dst[:start], wire)
	}
	return dst
}

// appendOrderedFixed appends the body of a value with a fixed size, which it has.
func appendOrderedFixed(dst []byte, k Kind, wire []byte) []byte {
	switch k {
	// Flipping the sign bit of a signed number makes its unsigned order its signed order.
	case Boolean:
		if wire[0] != 0 {
			return append(dst, 1)
		}
		return append(dst, 0)
	case Tinyint:
		return append(dst, wire[0]^0x80)
	case Smallint:
		return appendBE16(dst, be16(wire)^1<<15)
	case Int:
		return appendBE32(dst, be32(wire)^1<<31)
	// Dates are unsigned, with 1970 in the middle.
	case Date:
		return append(dst, wire...)
	// Java's order, which differs from the order of the bits for negative numbers and for NaN.
	case Float:
		return appendBE32(dst, orderedFloat32(be32(wire)))
	case Double:
		return appendBE64(dst, orderedFloat64(be64(wire)))
	case UUID:
		hi, lo := orderedUUID(wire)
		return appendBE64(appendBE64(dst, hi), lo)
	case Timeuuid:
		hi, lo := orderedTimeuuid(wire)
		return appendBE64(appendBE64(dst, hi), lo)
	// Times are not negative.
	case Time:
		return append(dst, wire...)
	}
	return appendBE64(dst, be64(wire)^1<<63) // bigint, counter, timestamp
}

// orderedFloat32 maps the bits of a float so that their unsigned order equals Java's Float.compare: -0 before 0, and
// all NaNs equal and last. All bits of a negative number are inverted, and only the sign of others: larger magnitudes
// of negative numbers sort first.
//
//	-1.0   BF800000 becomes 407FFFFF
//	-0.0   80000000 becomes 7FFFFFFF
//	0.0    00000000 becomes 80000000
//	1.0    3F800000 becomes BF800000
//	NaN    7FC00000 becomes FFC00000
func orderedFloat32(v uint32) uint32 {
	// More than the bits of infinity, apart from the sign, is a NaN.
	if v&^(1<<31) > 0x7F800000 {
		v = 0x7FC00000
	}
	if v>>31 != 0 {
		return ^v
	}
	return v ^ 1<<31
}

// orderedFloat64 is orderedFloat32 for a double.
func orderedFloat64(v uint64) uint64 {
	if v&^(1<<63) > 0x7FF0000000000000 {
		v = 0x7FF8000000000000
	}
	// All 64 bits: magnitude and sign of a negative number.
	if v>>63 != 0 {
		return ^v
	}
	return v ^ 1<<63
}

// orderedUUID moves the version to the front. It is followed by the 60-bit timestamp in a version 1 UUID, and by the
// unchanged bytes in others. hi and lo are compared as unsigned numbers. This is the order of Cassandra's UUIDType.
func orderedUUID(wire []byte) (hi, lo uint64) {
	m := be64(wire)
	if m>>12&0xF == 1 {
		return reorderTimestamp(m), be64(wire[8:])
	}
	// Version, then the 48 bits before it, then the 12 bits after it.
	return m<<48>>60<<60 | m>>16<<12 | m&0xFFF, be64(wire[8:])
}

// unorderUUID is the inverse of orderedUUID for the first half.
func unorderUUID(hi uint64) uint64 {
	if hi>>60 == 1 {
		return unreorderTimestamp(hi)
	}
	return hi<<4>>16<<16 | hi>>60<<12 | hi&0xFFF
}

// signBits are the sign bits of eight bytes: CQL orders the node half of a timeuuid by signed bytes, as Cassandra does.
// Flipping them makes the order unsigned.
const signBits = 0x8080808080808080

// orderedTimeuuid maps a timeuuid to two numbers, which are compared as unsigned ones: its timestamp with the version,
// as a signed number, then the node half.
func orderedTimeuuid(wire []byte) (hi, lo uint64) {
	return reorderTimestamp(be64(wire)) ^ 1<<63, be64(wire[8:]) ^ signBits
}

// reorderTimestamp converts time_low, time_mid, version and time_hi to version and timestamp: the parts of the
// timestamp are in reverse order in a UUID.
//
//	in the UUID   time_low (32 bits)   time_mid (16)   version (4)   time_hi (12)
//	result        version (4)   time_hi (12)   time_mid (16)   time_low (32)
func reorderTimestamp(m uint64) uint64 { return m<<48 | m<<16&0xFFFF00000000 | m>>32 }

// unreorderTimestamp is the inverse of reorderTimestamp.
func unreorderTimestamp(v uint64) uint64 { return v<<32 | v>>16&0xFFFF0000 | v>>48 }

// appendMalformed appends the form of bytes that are invalid for their type, with its tag.
func appendMalformed(dst, wire []byte) []byte {
	return appendEscaped(append(dst, tagMalformed), wire)
}

// appendEscaped appends bytes with their zeros escaped, and the terminator.
func appendEscaped(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			break
		}
		// The run before the zero is copied at once.
		dst = append(append(dst, b[:i]...), escape, escapedZero)
		b = b[i+1:]
	}
	return append(append(dst, b...), escape, escapeTerminator)
}

// invert inverts all bits of b.
func invert(b []byte) {
	for i := range b {
		b[i] ^= 0xFF
	}
}

// orderedReader consumes ordered bytes, inverted if mask is FF. The first failure is sticky: methods then return zeros
// and consume nothing, so that callers need only check bad at the end, and in loops.
type orderedReader struct {
	// src is the unread input. It is a part of the caller's slice and is never modified.
	src []byte
	// mask is 00 for ascending and FF for descending order. Decoders of inverted parts flip it temporarily.
	mask byte
	// bad is set by fail: the bytes are not the ordered form of any value.
	bad bool
}

// fail makes src empty, so that later reads fail at once.
func (r *orderedReader) fail() { r.bad, r.src = true, nil }

// byte consumes one byte.
func (r *orderedReader) byte() byte {
	if len(r.src) == 0 {
		r.fail()
		return 0
	}
	b := r.src[0] ^ r.mask
	r.src = r.src[1:]
	return b
}

// uint64 consumes eight bytes, the usual size of a clustering column, at once. The mask is repeated in each byte.
func (r *orderedReader) uint64() uint64 {
	if len(r.src) < 8 {
		r.fail()
		return 0
	}
	v := be64(r.src)
	r.src = r.src[8:]
	return v ^ uint64(r.mask)*0x0101010101010101
}

// uint consumes a big-endian number of n bytes, no more than 8.
func (r *orderedReader) uint(n int) (v uint64) {
	if len(r.src) < n {
		r.fail()
		return 0
	}
	for _, b := range r.src[:n] {
		v = v<<8 | uint64(b^r.mask)
	}
	r.src = r.src[n:]
	return v
}

// raw appends the next n bytes, without the mask.
func (r *orderedReader) raw(dst []byte, n int) []byte {
	if n < 0 || len(r.src) < n {
		r.fail()
		return dst
	}
	// The copy is inverted, not src.
	start := len(dst)
	dst = append(dst, r.src[:n]...)
	if r.mask != 0 {
		invert(dst[start:])
	}
	r.src = r.src[n:]
	return dst
}

// escaped appends the bytes up to the terminator, which it consumes. Between zeros it copies whole runs.
func (r *orderedReader) escaped(dst []byte) []byte {
	for {
		// Escape and terminator have two bytes.
		i := bytes.IndexByte(r.src, escape^r.mask)
		if i < 0 || i+1 >= len(r.src) {
			r.fail()
			return dst
		}
		dst = r.raw(dst, i)
		// After raw, the zero byte is first.
		switch b := r.src[1] ^ r.mask; b {
		case escapedZero:
			dst = append(dst, 0)
		case escapeTerminator:
			r.src = r.src[2:]
			return dst
		default:
			r.fail()
			return dst
		}
		r.src = r.src[2:]
	}
}

// consumeOrdered appends the next component's wire form to dst, or reports that it is null. dst is returned even after
// a failure.
func consumeOrdered(t *Type, dst []byte, r *orderedReader) (wire []byte, null bool) {
	switch r.byte() {
	case tagNull:
		return dst, true
	case tagEmpty:
		// The zero-length value: nothing is appended.
		return dst, false
	case tagValue:
		return consumeBody(t, dst, r), false
	case tagMalformed:
		return r.escaped(dst), false
	}
	r.fail()
	return dst, false
}

// consumeBody appends the wire form of a body. It is the inverse of appendOrdered after the tag.
func consumeBody(t *Type, dst []byte, r *orderedReader) []byte {
	switch t.kind {
	// Their bodies are their wire forms.
	case Boolean, Date, Time:
		return r.raw(dst, fixedSize(t.kind))
	// A failed read returns 0; r.bad makes the caller discard the result.
	case Tinyint:
		return append(dst, byte(r.uint(1))^0x80)
	case Smallint:
		return appendBE16(dst, uint16(r.uint(2))^1<<15)
	case Int:
		return appendBE32(dst, uint32(r.uint(4))^1<<31)
	case Bigint, Counter, Timestamp:
		return appendBE64(dst, r.uint64()^1<<63)
	case Float:
		v := uint32(r.uint(4))
		// The upper bit is set for numbers that were not negative.
		if v>>31 == 0 {
			return appendBE32(dst, ^v)
		}
		return appendBE32(dst, v^1<<31)
	case Double:
		v := r.uint64()
		if v>>63 == 0 {
			return appendBE64(dst, ^v)
		}
		return appendBE64(dst, v^1<<63)
	case UUID:
		dst = appendBE64(dst, unorderUUID(r.uint64()))
		return r.raw(dst, 8)
	// Both halves were changed by orderedTimeuuid, unlike the second half of a UUID.
	case Timeuuid:
		dst = appendBE64(dst, unreorderTimestamp(r.uint64()^1<<63))
		return appendBE64(dst, r.uint64()^signBits)
	case Varint:
		return consumeOrderedVarint(dst, r)
	case Decimal:
		return consumeOrderedDecimal(dst, r)
	case List, Set, Map:
		return consumeOrderedCollection(t, dst, r)
	case Tuple, UDT:
		return consumeOrderedFields(t, dst, r)
	case Vector:
		return consumeOrderedVector(t, dst, r)
	case Custom:
		return consumeLegacy(t, dst, r)
	}
	// Ascii, blob, duration, inet and text.
	return r.escaped(dst)
}

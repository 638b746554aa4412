package number

import (
	"bytes"
	"cmp"
	"math/big"
	"math/bits"
)

// AppendInt64 appends v as the wire form of a varint: two's complement in the fewest bytes that keep the sign, but at
// least one.
func AppendInt64(dst []byte, v int64) []byte {
	// v^v>>63 has the bits of v that differ from its sign. One more bit is for the sign.
	n := bits.Len64(uint64(v^v>>63))/8 + 1
	// The lower n bytes, the most significant first.
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}

// Append appends x as the wire form of a varint. Numbers of 64 bits take the fast way.
func Append(dst []byte, x *big.Int) []byte {
	if x.IsInt64() {
		return AppendInt64(dst, x.Int64())
	}
	if x.Sign() > 0 {
		b := x.Bytes()
		// The first bit is the sign, so a set bit needs a byte before it.
		if b[0] >= 0x80 {
			dst = append(dst, 0)
		}
		return append(dst, b...)
	}
	// -x-1 has the inverted bits of x.
	b := new(big.Int).Not(x).Bytes()
	if b[0] >= 0x80 {
		dst = append(dst, 0xFF)
	}
	start := len(dst)
	dst = append(dst, b...)
	invert(dst[start:])
	return dst
}

// Big decodes the wire form of a varint, minimal or not. No bytes mean 0. b is not changed.
func Big(b []byte) *big.Int {
	x := new(big.Int)
	if len(b) == 0 || b[0] < 0x80 {
		return x.SetBytes(b)
	}
	inverted := bytes.Clone(b)
	invert(inverted)
	// The inverse of Append: Not of the inverted bits.
	return x.Not(x.SetBytes(inverted))
}

// invert inverts all bits, in place.
func invert(b []byte) {
	for i := range b {
		b[i] ^= 0xFF
	}
}

// Int64 decodes one to eight bytes of two's complement, big-endian.
func Int64(b []byte) int64 {
	v := int64(int8(b[0]))
	for _, c := range b[1:] {
		v = v<<8 | int64(c)
	}
	return v
}

// Minimal returns b without the leading bytes that only repeat the sign. b is not empty. The result is part of b.
func Minimal(b []byte) []byte {
	// A leading byte is superfluous if the next one has the same sign bit and it consists of sign bits only.
	for len(b) > 1 && (b[0] == 0 && b[1] < 0x80 || b[0] == 0xFF && b[1] >= 0x80) {
		b = b[1:]
	}
	return b
}

// CompareVarint compares two's complement numbers of any length. Superfluous leading bytes do not count.
//
//	00 80   128: the leading 00 is needed, because 80 alone is -128
//	00 7F   127, the same as 7F
func CompareVarint(a, b []byte) int {
	a, b = Minimal(a), Minimal(b)
	negative := a[0] >= 0x80
	// The sign is 0 or -1: a negative number has the smaller one, so that the result is reversed for bytes.
	if c := cmp.Compare(int8(a[0]>>7), int8(b[0]>>7)); c != 0 {
		return -c
	}
	// A longer minimal form is further from zero.
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		if negative {
			return -c
		}
		return c
	}
	// Same sign and length: two's complement has the order of unsigned bytes then.
	return bytes.Compare(a, b)
}

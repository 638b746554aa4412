package types

import (
	"math/big"
	"math/bits"
)

// appendMinimalInt64 appends v as the wire form of a varint: two's complement, as few bytes as
// keep the sign, at least one.
func appendMinimalInt64(dst []byte, v int64) []byte {
	n := bits.Len64(uint64(v^v>>63))/8 + 1
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, byte(v>>(8*i)))
	}
	return dst
}

// appendBig appends x as the wire form of a varint.
func appendBig(dst []byte, x *big.Int) []byte {
	if x.IsInt64() {
		return appendMinimalInt64(dst, x.Int64())
	}
	if x.Sign() > 0 {
		b := x.Bytes()
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

// decodeBig reads the wire form of a varint, minimal or not; no bytes are 0.
func decodeBig(b []byte) *big.Int {
	x := new(big.Int)
	if len(b) == 0 || b[0] < 0x80 {
		return x.SetBytes(b)
	}
	inverted := make([]byte, len(b))
	for i := range b {
		inverted[i] = ^b[i]
	}
	return x.Not(x.SetBytes(inverted))
}

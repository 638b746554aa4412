package types

import (
	"bytes"
	"math"

	"cqld/types/number"
)

// varintLong is the length from which the length has bytes of its own.
//
// The body of a varint is its length, then its minimal form. The length comes first, because a longer number is further
// from zero; it is subtracted from a middle value for negative numbers.
//
//	00 length     negative, 127 bytes or more; the length in 4 bytes, inverted
//	01 … 7E       negative, 126 bytes to 1
//	81 … FE       not negative, 1 byte to 126
//	FF length     not negative, 127 bytes or more; the length in 4 bytes
const varintLong = 0x7F

// appendOrderedVarint appends the body of a varint.
func appendOrderedVarint(dst, wire []byte) []byte {
	b := number.Minimal(wire)
	n := len(b)
	switch negative := b[0]&0x80 != 0; {
	case n < varintLong && negative:
		dst = append(dst, byte(0x7F-n))
	case n < varintLong:
		dst = append(dst, byte(0x80+n))
	// Inverted: a longer negative number is smaller.
	case negative:
		dst = appendBE32(append(dst, 0x00), ^uint32(n))
	default:
		dst = appendBE32(append(dst, 0xFF), uint32(n))
	}
	// Of two numbers with the same sign and length, two's complement has the order of the bytes.
	return append(dst, b...)
}

// consumeOrderedVarint appends the minimal form.
func consumeOrderedVarint(dst []byte, r *orderedReader) []byte {
	return r.raw(dst, r.varintSize())
}

// varintSize consumes the number of bytes of a varint. Zero bytes do not occur, and are a failure. The number is not
// checked against the remaining bytes: raw and skip do.
func (r *orderedReader) varintSize() int {
	n := 0
	switch b := r.byte(); {
	case b == 0xFF:
		n = int(r.uint(4))
	case b == 0x00:
		n = int(^uint32(r.uint(4)))
	case b >= 0x80:
		n = int(b) - 0x80
	default:
		n = 0x7F - int(b)
	}
	// The bytes 7F and 80 are not written by the encoder.
	if n == 0 {
		r.fail()
	}
	return n
}

// The body of a decimal 0.d₁d₂… × 10^e without leading or trailing zero digits is a sign byte, e in five bytes, the
// digits in pairs, and an end. Pair dd is byte dd+1, so the end (00) sorts before every pair. For a negative number, e,
// pairs and end are inverted. Zero is the sign byte alone.
//
// The encoding depends on e, not on the scale: 1E+1000000000 takes as little space as 1. Equal numbers with different
// scales have the same encoding.
const (
	decimalNegative = 0x01
	decimalZero     = 0x02
	decimalPositive = 0x03

	// e has more than 32 bits: the scale has 32, and the digits add to it.
	exponentBias  = 1 << 39
	exponentBytes = 5

	// wholeZerosMax is the maximum number of trailing zeros that a whole number regains when it is decoded from its
	// ordered form. With more, it is decoded with a negative scale, as 1E+41.
	wholeZerosMax = 40
	// digitsMax bounds the zeros added by decoding if a scale would be below the least int32.
	digitsMax = 1 << 18
)

// appendOrderedDecimal appends the body of a decimal, or returns false for bytes that are not a decimal.
func appendOrderedDecimal(dst, wire []byte) ([]byte, bool) {
	var buf [40]byte
	if len(wire) < number.ScaleBytes {
		return dst, false
	}
	sign, e, digits := number.Digits(buf[:], wire)
	switch {
	case sign == 0:
		return append(dst, decimalZero), true
	case sign > 0:
		dst = append(dst, decimalPositive)
	default:
		dst = append(dst, decimalNegative)
	}
	start := len(dst)
	// e is biased, so that it sorts as an unsigned number.
	v := uint64(e + exponentBias)
	dst = append(dst, byte(v>>32), byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
	// dd is at most 99, so its byte is 1 to 100.
	for len(digits) > 1 {
		dst = append(dst, (digits[0]-'0')*10+digits[1]-'0'+1)
		digits = digits[2:]
	}
	// An odd last digit is a pair with zero, which decoding cuts off.
	if len(digits) == 1 {
		dst = append(dst, (digits[0]-'0')*10+1)
	}
	dst = append(dst, bodyEnd)
	if sign < 0 {
		invert(dst[start:])
	}
	return dst, true
}

// consumeOrderedDecimal appends the canonical wire form of a decimal.
func consumeOrderedDecimal(dst []byte, r *orderedReader) []byte {
	sign := r.byte()
	flip := byte(0)
	switch sign {
	case decimalZero:
		// Zero has scale 0 and one byte.
		return append(dst, 0, 0, 0, 0, 0)
	case decimalNegative:
		flip = 0xFF
	case decimalPositive:
	default:
		r.fail()
		return dst
	}
	// For negative numbers the inner bytes are inverted once more.
	r.mask ^= flip
	e := int64(r.uint(exponentBytes)) - exponentBias
	var buf [48]byte
	digits := buf[:0]
	for {
		b := r.byte()
		if b == bodyEnd || r.bad {
			break
		}
		// No pair has such a byte.
		if b > 100 {
			r.fail()
			break
		}
		digits = append(digits, '0'+(b-1)/10, '0'+(b-1)%10)
	}
	r.mask ^= flip
	// The zero of an odd last pair.
	digits = bytes.TrimRight(digits, "0")
	// The encoder writes no leading zeros and no number without digits: each number has one form.
	if len(digits) == 0 || digits[0] == '0' || r.bad {
		r.fail()
		return dst
	}
	digits, scale, ok := canonicalScale(digits, int64(len(digits))-e)
	if !ok {
		r.fail()
		return dst
	}
	return number.AppendDigits(dst, sign == decimalNegative, digits, scale)
}

// canonicalScale restores the trailing zeros of a whole number, so that its scale is 0, unless there are too many. It
// fails if the scale cannot be represented, which no encoded number causes.
func canonicalScale(digits []byte, scale int64) ([]byte, int32, bool) {
	zeros := int64(0)
	switch {
	case scale < 0 && scale >= -wholeZerosMax:
		zeros = -scale
	case scale < math.MinInt32:
		// The scale has 32 bits: a smaller one needs zeros in the digits.
		zeros = math.MinInt32 - scale
	}
	// A hostile exponent would otherwise allocate up to 2^39 digits.
	if zeros > digitsMax || scale > math.MaxInt32 {
		return nil, 0, false
	}
	for range zeros {
		digits = append(digits, '0')
	}
	return digits, int32(scale + zeros), true
}

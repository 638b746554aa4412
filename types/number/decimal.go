package number

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// ScaleBytes is the size of a decimal's scale, with which its wire form begins.
const ScaleBytes = 4

// Digits returns a decimal's sign (-1, 0, 1), exponent e and digits without zeros at either end. The digits use buf if
// they fit. The value is sign × 0.digits × 10^e.
func Digits(buf, wire []byte) (sign int, e int64, digits []byte) {
	scale, unscaled := scaleOf(wire), wire[ScaleBytes:]
	// Most numbers fit into 64 bits.
	if len(unscaled) <= 8 {
		v := int64(0)
		if len(unscaled) > 0 {
			v = Int64(unscaled)
		}
		sign = 1
		u := uint64(v)
		// -u is right for the least int64, too.
		if v < 0 {
			sign, u = -1, -u
		}
		digits = strconv.AppendUint(buf[:0], u, 10)
	} else {
		x := Big(unscaled)
		sign = x.Sign()
		digits = x.Append(buf[:0], 10)
		// Append writes a minus sign.
		if sign < 0 {
			digits = digits[1:]
		}
	}
	// Before trailing zeros are cut off: they are part of the number's length.
	e = int64(len(digits)) - scale
	digits = bytes.TrimRight(digits, "0")
	// Only zero consists of zeros. Its scale is dropped: 0.00 equals 0.
	if len(digits) == 0 {
		return 0, 0, nil
	}
	return sign, e, digits
}

// AppendDigits appends the wire form of a decimal. Up to 18 digits fit into an int64.
func AppendDigits(dst []byte, negative bool, digits []byte, scale int32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(scale))
	if len(digits) <= 18 {
		v := int64(0)
		for _, d := range digits {
			v = v*10 + int64(d-'0')
		}
		if negative {
			v = -v
		}
		return AppendInt64(dst, v)
	}
	x := fromDigits(string(digits))
	if negative {
		x.Neg(x)
	}
	return Append(dst, x)
}

// AppendDecimalText appends a decimal like Java's BigDecimal.toString: without an exponent if the scale is not negative
// and the number is not below 10^-6, otherwise with one. The text is about as long as the digits, whatever the scale.
//
//	digits 150, scale 2    1.50
//	digits 0, scale 3      0.000
//	digits 1, scale -3     1E+3
//	digits 5, scale 7      5E-7
func AppendDecimalText(dst, wire []byte) []byte {
	scale, unscaled := scaleOf(wire), wire[ScaleBytes:]
	var buf [40]byte
	var digits []byte
	// No bytes after the scale are zero.
	if len(unscaled) <= 8 && len(unscaled) > 0 {
		digits = strconv.AppendInt(buf[:0], Int64(unscaled), 10)
	} else {
		digits = Big(unscaled).Append(buf[:0], 10)
	}
	if digits[0] == '-' {
		dst, digits = append(dst, '-'), digits[1:]
	}
	n := int64(len(digits))
	// The exponent of the first digit.
	adjusted := n - 1 - scale
	// The condition of BigDecimal.toString for the plain form.
	if scale >= 0 && adjusted >= -6 {
		// Digits before the point.
		switch whole := n - scale; {
		case scale == 0:
			return append(dst, digits...)
		case whole > 0:
			dst = append(append(dst, digits[:whole]...), '.')
			return append(dst, digits[whole:]...)
		default:
			dst = append(dst, "0."...)
			for range -whole {
				dst = append(dst, '0')
			}
			return append(dst, digits...)
		}
	}
	dst = append(dst, digits[0])
	if n > 1 {
		dst = append(append(dst, '.'), digits[1:]...)
	}
	// Java writes no exponent of zero.
	if adjusted == 0 {
		return dst
	}
	dst = append(dst, 'E')
	if adjusted > 0 {
		dst = append(dst, '+')
	}
	return strconv.AppendInt(dst, adjusted, 10)
}

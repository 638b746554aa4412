package number

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
)

// Decimals have up to 16 MiB of digits, in two's complement, and a scale of 32 bits. The conversion to decimal digits
// takes more than linear time: 0.05 s for 64 KiB. These functions avoid it for long numbers, and never write out the
// zeros that a scale stands for:
//
//	equal scales            compared like varints
//	different magnitudes    the bits and the scales decide
//	different digits        the leading bits decide, in linear time
//	otherwise               the scales differ by about as many digits as the numbers, so one is multiplied

// long is the number of bytes from which a number counts as long.
const long = 128

// CompareDecimal compares decimals by value: 1.0 and 1.00 are equal. It does not align scales, whose difference may be
// billions of digits, unless the numbers have about the same magnitude.
func CompareDecimal(a, b []byte) int {
	if len(a) > long || len(b) > long {
		return compareLong(a, b)
	}
	// Most decimals fit, so that nothing is allocated.
	var bufA, bufB [40]byte
	signA, eA, digitsA := Digits(bufA[:], a)
	signB, eB, digitsB := Digits(bufB[:], b)
	// Zero has no exponent.
	if signA != signB || signA == 0 {
		return cmp.Compare(signA, signB)
	}
	// Digits begin with a digit that is not zero, so a larger exponent is a larger magnitude.
	c := cmp.Compare(eA, eB)
	if c == 0 {
		c = bytes.Compare(digitsA, digitsB)
	}
	// The digits are magnitudes: of two negative numbers, the one with the larger magnitude is smaller.
	return signA * c
}

// compareLong is CompareDecimal for numbers of any length.
func compareLong(a, b []byte) int {
	scaleA, scaleB := scaleOf(a), scaleOf(b)
	// Numbers without digits are zero.
	if scaleA == scaleB && len(a) > ScaleBytes && len(b) > ScaleBytes {
		return CompareVarint(a[ScaleBytes:], b[ScaleBytes:])
	}
	x, y := Big(a[ScaleBytes:]), Big(b[ScaleBytes:])
	sign := x.Sign()
	if sign != y.Sign() || sign == 0 {
		return cmp.Compare(sign, y.Sign())
	}
	lowA, highA := magnitude(x, scaleA)
	lowB, highB := magnitude(y, scaleB)
	switch {
	case lowA > highB:
		return sign
	case lowB > highA:
		return -sign
	}
	// The magnitudes are nearly equal, so the product is about as long as the other number.
	if scaleA < scaleB {
		return sign * compareScaled(x, y, scaleB-scaleA)
	}
	return -sign * compareScaled(y, x, scaleA-scaleB)
}

// leadingBits is the precision with which compareScaled begins.
const leadingBits = 256

// compareScaled compares |x| × 10^n with |y|. It changes x. Only numbers that are equal, or have the same leading bits,
// are multiplied.
func compareScaled(x, y *big.Int, n int64) int {
	// 10^n has n factors of two.
	equal := int64(x.TrailingZeroBits())+n == int64(y.TrailingZeroBits())
	for precision := uint(leadingBits); precision < uint(y.BitLen()); precision *= 16 {
		if c := compareLeading(x, y, n, precision); c != 0 {
			return c
		}
		// No precision can distinguish equal numbers.
		if equal {
			break
		}
	}
	return x.Mul(x, powerOfTen(n)).CmpAbs(y)
}

// compareLeading compares |x| × 10^n with |y| by their leading bits. It returns 0 if these are equal.
//
// A rounding changes a value by at most 2^-precision of its size. The error of the power is doubled by each of at
// most 32 squarings, so that the error of the product is less than 2^(36-precision), and the margin is larger.
func compareLeading(x, y *big.Int, n int64, precision uint) int {
	const marginBits = 64
	product := new(big.Float).SetPrec(precision).SetInt(x)
	product.Abs(product.Mul(product, floatPower(n, precision)))
	other := new(big.Float).SetPrec(precision).SetInt(y)
	other.Abs(other)
	margin := new(big.Float).SetMantExp(other, marginBits-int(precision))
	if difference := product.Sub(product, other); margin.Cmp(new(big.Float).Abs(difference)) < 0 {
		return difference.Sign()
	}
	return 0
}

// fromDigits converts one or more decimal digits. The time of big.Int.SetString grows with the square of their number.
func fromDigits(digits string) *big.Int {
	const short = 2000
	if len(digits) <= short {
		x, _ := new(big.Int).SetString(digits, 10)
		return x
	}
	low := len(digits) / 2
	x := fromDigits(digits[:len(digits)-low])
	x.Mul(x, powerOfTen(int64(low)))
	return x.Add(x, fromDigits(digits[len(digits)-low:]))
}

// scaleOf returns the scale of a decimal.
func scaleOf(wire []byte) int64 { return int64(int32(binary.BigEndian.Uint32(wire))) }

// powerOfTen returns 10^n.
func powerOfTen(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

// magnitude returns bounds of e in |x| × 10^-scale = 0.d₁d₂… × 10^e, where x is not zero. They differ by one or two for
// numbers of up to 16 MiB.
func magnitude(x *big.Int, scale int64) (low, high int64) {
	// x has n bits: 2^(n-1) ≤ |x| < 2^n.
	n := float64(x.BitLen())
	return int64(math.Floor((n-1)*math.Log10(2)-1e-6)) + 1 - scale, int64(math.Floor(n*math.Log10(2)+1e-6)) + 1 - scale
}

// DecimalFloat returns the float64 nearest to a decimal, or the float32 if bits is 32. Numbers beyond the range become
// infinities.
func DecimalFloat(wire []byte, bits int) float64 {
	if len(wire) <= long {
		// Through text, which rounds once.
		f, _ := strconv.ParseFloat(string(AppendDecimalText(nil, wire)), bits)
		return f
	}
	x, scale := Big(wire[ScaleBytes:]), scaleOf(wire)
	if x.Sign() == 0 {
		return 0
	}
	// Beyond these bounds the power of ten has an exponent that a big.Float cannot have.
	const exponentMax = 400
	switch low, high := magnitude(x, scale); {
	case low > exponentMax:
		return math.Inf(x.Sign())
	case high < -exponentMax:
		return math.Copysign(0, float64(x.Sign()))
	}
	return Rounded(scaledFloat(x, scale), bits)
}

// The precision of long decimals on the way to a float, in bits. The computation has more than the result, so that a
// number in the middle between two floats is found to be there, and is rounded to the even one. Another number is
// rounded wrongly only if it differs from such a middle by less than 2^-4096 of its size.
const (
	floatPrecision   = 4096
	scalingPrecision = 2 * floatPrecision
)

// scaledFloat returns x × 10^-scale.
func scaledFloat(x *big.Int, scale int64) *big.Float {
	f := new(big.Float).SetPrec(scalingPrecision).SetInt(x)
	power := floatPower(max(scale, -scale), scalingPrecision)
	if scale > 0 {
		f.Quo(f, power)
	} else {
		f.Mul(f, power)
	}
	return f.SetPrec(floatPrecision)
}

// floatPower returns 10^n by repeated squaring. Each operation is rounded to precision bits.
func floatPower(n int64, precision uint) *big.Float {
	power, square := big.NewFloat(1).SetPrec(precision), big.NewFloat(10).SetPrec(precision)
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			power.Mul(power, square)
		}
		// The last square may be beyond the range of exponents; it is not used.
		square.Mul(square, square)
	}
	return power
}

// Rounded returns the float64 or float32 nearest to f.
func Rounded(f *big.Float, bits int) float64 {
	if bits == 32 {
		v, _ := f.Float32()
		return float64(v)
	}
	v, _ := f.Float64()
	return v
}

package number

import (
	"encoding/binary"
	"math/big"
	"runtime"
	"strings"
	"testing"
)

// TestDigitsAreConverted compares with big.Int.
func TestDigitsAreConverted(t *testing.T) {
	for _, n := range []int{1, 1999, 2000, 2001, 4001, 16384} {
		digits := strings.Repeat("9070", n/4+1)[:n]
		want, _ := new(big.Int).SetString(digits, 10)
		if got := fromDigits(digits); got.Cmp(want) != 0 {
			t.Errorf("%d digits are converted wrongly", n)
		}
	}
}

// TestLongDecimalsCompareByLeadingBits compares numbers of the same magnitude with different scales. Their leading bits
// decide: the comparison allocates about as much as the operands are long, and computes no power of ten.
func TestLongDecimalsCompareByLeadingBits(t *testing.T) {
	const size = 1 << 20
	wire := func(x *big.Int, scale int64) []byte {
		return Append(binary.BigEndian.AppendUint32(nil, uint32(int32(scale))), x)
	}
	y := new(big.Int).SetBytes([]byte(strings.Repeat("\x5A\x10\x33\x7F", size/4)))
	// 10^n is the magnitude of half of the bits.
	n := int64(size * 8 / 2 * 30103 / 100000)
	// The quotient y / 10^n by its leading bits, which may differ in the last digit.
	leading := new(big.Float).SetPrec(4096).SetInt(y)
	leading.Quo(leading, floatPower(n, 4096))
	x, _ := leading.Int(nil)
	for _, test := range []struct {
		x    *big.Int
		want int
	}{
		{new(big.Int).Add(x, new(big.Int).Rsh(x, 100)), 1},
		{new(big.Int).Sub(x, new(big.Int).Rsh(x, 100)), -1},
		// The first precision does not decide, and equality is impossible.
		{new(big.Int).Add(x, new(big.Int).Rsh(x, 1000)), 1},
		{new(big.Int).Sub(x, new(big.Int).Rsh(x, 1000)), -1},
	} {
		for _, negative := range []bool{false, true} {
			a, b, want := new(big.Int).Set(test.x), new(big.Int).Set(y), test.want
			if negative {
				a.Neg(a)
				b.Neg(b)
				want = -want
			}
			short, long := wire(a, 5), wire(b, 5+n)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, reversed := CompareDecimal(short, long), CompareDecimal(long, short)
			runtime.ReadMemStats(&after)
			if got != want || reversed != -want {
				t.Errorf("negative %v: %d and %d, want %d", negative, got, reversed, want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 16*size {
				t.Errorf("negative %v: two comparisons allocate %d bytes", negative, used)
			}
		}
	}
}

// TestNearlyEqualDecimalsCompareExactly compares numbers that are equal, or differ in the last digits only.
func TestNearlyEqualDecimalsCompareExactly(t *testing.T) {
	for _, n := range []int64{1, 50, 600, 3000} {
		x := new(big.Int).SetBytes([]byte(strings.Repeat("\x5A\x10\x33\x7F", 500)))
		for _, difference := range []int64{-1024, -1, 0, 1, 1024} {
			y := new(big.Int).Mul(x, powerOfTen(n))
			y.Add(y, big.NewInt(difference))
			want := big.NewInt(-difference).Sign()
			if got := compareScaled(new(big.Int).Set(x), y, n); got != want {
				t.Errorf("x × 10^%d and a number that is greater by %d: %d, want %d", n, difference, got, want)
			}
		}
	}
}

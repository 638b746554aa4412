package types

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"cqld/types/number"
)

// powerOfTen returns 10^n.
func powerOfTen(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

// decimalWire returns x × 10^-scale.
func decimalWire(x *big.Int, scale int32) []byte {
	return number.Append(appendBE32(nil, uint32(scale)), x)
}

// TestLongDecimalsCompareLikeShortOnes compares the order of long decimals with the order of their digits, for numbers
// that are equal, or nearly equal, with different scales.
func TestLongDecimalsCompareLikeShortOnes(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	numbers := []*big.Int{big.NewInt(0), big.NewInt(1), big.NewInt(-1), big.NewInt(9), big.NewInt(10), big.NewInt(99)}
	for range 12 {
		x := new(big.Int).SetBytes(randomBytes(r, 1, 300))
		y := new(big.Int).Mul(x, powerOfTen(r.Int64N(40)))
		numbers = append(numbers, x, new(big.Int).Neg(x), y, new(big.Int).Add(y, big.NewInt(1)),
			powerOfTen(r.Int64N(400)))
	}
	scales := []int32{0, 1, -1, 2, 39, -39, 400, math.MaxInt32, math.MinInt32}
	typ := Native(Decimal)
	for range 4000 {
		x, y := numbers[r.IntN(len(numbers))], numbers[r.IntN(len(numbers))]
		scale := scales[r.IntN(len(scales))]
		a, b := decimalWire(x, scale), decimalWire(y, scale)
		// The same magnitude, with other zeros.
		if digits := int32(len(y.String()) - len(x.String())); r.IntN(2) == 0 && scale > -1000 && scale < 1000 {
			b = decimalWire(y, scale+digits)
		}
		want := bytes.Compare(typ.AppendOrdered(nil, a, false), typ.AppendOrdered(nil, b, false))
		if got := number.CompareDecimal(a, b); got != want {
			t.Fatalf("CompareDecimal(%x, %x) = %d, not %d", a, b, got, want)
		}
		if got := typ.Compare(a, b); got != want {
			t.Fatalf("Compare(%x, %x) = %d, not %d", a, b, got, want)
		}
	}
}

// TestLongDecimalsRoundOnce converts long decimals to floats, and compares with the conversion of their text.
func TestLongDecimalsRoundOnce(t *testing.T) {
	zeros := strings.Repeat("0", 700)
	for _, text := range []string{
		"9007199254740993." + zeros, "9007199254740993." + zeros + "1", "9007199254740992." + strings.Repeat("9", 700),
		"-9007199254740993." + zeros, "16777217." + zeros, "16777217." + zeros + "1",
		"1152921573326323712.5" + zeros, "0." + zeros + "1", "-0." + zeros + "1" + zeros, "1" + zeros, "-1" + zeros,
		"0." + strings.Repeat("0", 322) + "5" + zeros, "0." + strings.Repeat("0", 44) + "1401298464324817" + zeros,
		"0." + strings.Repeat("3", 900), "179769313486231580793728971405301" + strings.Repeat("1", 276) + "." + zeros,
		"340282356779733661637539395458142568447." + zeros, "0." + zeros,
	} {
		v, err := Native(Decimal).FromText(text)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := strconv.ParseFloat(text, 64)
		if got, ok := Native(Decimal).Float64(v); !ok || got != want {
			t.Errorf("%.30s…: %v, not %v", text, got, want)
		}
		want, _ = strconv.ParseFloat(text, 32)
		if got, ok := Native(Decimal).Float32(v); !ok || got != float32(want) {
			t.Errorf("%.30s… as a float: %v, not %v", text, got, float32(want))
		}
	}
}

// TestLongNumbersAreBounded passes long numbers, and numbers with the largest scales, to all functions of values. The
// conversions to digits would take minutes.
func TestLongNumbersAreBounded(t *testing.T) {
	digits := bytes.Repeat([]byte{0x5A, 0x10, 0x33, 0x7F}, 1<<17)
	other := append(bytes.Clone(digits[:len(digits)-1]), 0)
	one := []byte{1}
	var values [][]byte
	for _, scale := range []int32{0, 3, -3, math.MaxInt32, math.MinInt32, int32(len(digits) * 2)} {
		for _, unscaled := range [][]byte{digits, other, one} {
			values = append(values, append(appendBE32(nil, uint32(scale)), unscaled...))
		}
	}
	// About the same magnitude, with scales that differ by a half of the digits.
	half := int32(len(digits) * 8 / 2 * 30103 / 100000)
	values = append(values, append(appendBE32(nil, 0), digits[:len(digits)/2]...),
		append(appendBE32(nil, uint32(half)), digits...), append(appendBE32(nil, uint32(half+1)), digits...),
		append(appendBE32(nil, uint32(half-1)), other...))
	for _, typ := range []*Type{Native(Decimal), Native(Varint), NewList(Native(Decimal), true)} {
		for _, v := range values {
			if typ.Kind() == List {
				v, _ = typ.AppendParts(nil, [][]byte{v})
			}
			for _, w := range [][]byte{typ.AppendText(nil, v), typ.AppendLiteral(nil, v), typ.AppendJSON(nil, v)} {
				if len(w) > 2*len(v)+100 {
					t.Errorf("%s: the text of %d bytes has %d bytes", typ, len(v), len(w))
				}
			}
			typ.Float64(v)
			typ.Float32(v)
		}
	}
	typ := Native(Decimal)
	var before, after runtime.MemStats
	for _, a := range values {
		for _, b := range values {
			// A power of ten takes several times the size of the numbers.
			runtime.ReadMemStats(&before)
			typ.Compare(a, b)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > uint64(4*(len(a)+len(b)))+64<<10 {
				t.Errorf("the comparison of %.8x… with %.8x… allocates %d bytes", a, b, n)
			}
			if typ.Compare(a, b) != -typ.Compare(b, a) {
				t.Errorf("the order of %.8x… and %.8x… is not symmetric", a, b)
			}
		}
	}
	set := NewSet(typ, true)
	parts, _ := set.AppendParts(nil, values)
	set.Normalize(parts)
}

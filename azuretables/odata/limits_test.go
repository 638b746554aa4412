package odata

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// TestUTF16LengthsAreThoseOfEachByte compares a count of many bytes at a time with a count byte by byte, for valid and
// invalid UTF-8.
func TestUTF16LengthsAreThoseOfEachByte(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	runes := []rune{'a', 'é', '€', '😀', 0x10FFFF, 0x800, 0x7FF, 0xFFFF, 0x10000}
	for i := range 20_000 {
		var b []byte
		for n := r.IntN(120); len(b) < n; {
			switch {
			case i%3 == 0:
				b = append(b, byte(r.Uint32()))
			case i%3 == 1 && r.IntN(20) > 0:
				b = append(b, 'x')
			default:
				b = utf8.AppendRune(b, runes[r.IntN(len(runes))])
			}
		}
		want := 0
		for _, c := range b {
			want += utf16Units(c)
		}
		if got := utf16LenBytes(b); got != want {
			t.Fatalf("%d units of %x, want %d", got, b, want)
		}
		if utf8.Valid(b) && want != len(utf16.Encode([]rune(string(b)))) {
			t.Fatalf("%d units of %q", want, b)
		}
	}
}

func BenchmarkUTF16Length(b *testing.B) {
	text := bytes.Repeat([]byte("x"), 900)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		utf16LenBytes(text)
	}
}

package types

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

func TestOrderedFormSortsAsCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, typ := range orderedTypes() {
		for range 3000 {
			a, b := randomOrNull(r, typ), randomOrNull(r, typ)
			want := sign(typ.Compare(a, b))
			if back := sign(typ.Compare(b, a)); back != -want {
				t.Fatalf("%s: Compare(%x, %x) = %d but reversed %d", typ, a, b, want, back)
			}
			for _, desc := range []bool{false, true} {
				ka, kb := typ.AppendOrdered(nil, a, desc), typ.AppendOrdered(nil, b, desc)
				got := bytes.Compare(ka, kb)
				if desc {
					got = -got
				}
				if got != want {
					t.Fatalf("%s desc=%t: %x and %x order %d by key (%x, %x), %d by Compare", typ, desc, a, b, got, ka,
						kb, want)
				}
				if want != 0 && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
					t.Fatalf("%s desc=%t: %x and %x: one key is a prefix of the other (%x, %x)", typ, desc, a, b, ka,
						kb)
				}
				if ka[0] == 0x00 || ka[0] == 0xFF {
					t.Fatalf("%s: key %x begins with a bound's byte", typ, ka)
				}
			}
		}
	}
}

func TestOrderedFormRoundTrips(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, typ := range orderedTypes() {
		for range 2000 {
			a := randomOrNull(r, typ)
			for _, desc := range []bool{false, true} {
				key := typ.AppendOrdered([]byte("before"), a, desc)
				key = append(key, "after"...)
				wire, rest, err := typ.ConsumeOrdered([]byte("dst"), key[6:], desc)
				if err != nil || string(rest) != "after" {
					t.Fatalf("%s: ConsumeOrdered(%x): rest %q, %v", typ, key, rest, err)
				}
				if skipped, err := typ.SkipOrdered(key[6:], desc); err != nil || string(skipped) != "after" {
					t.Fatalf("%s: SkipOrdered(%x): rest %q, %v", typ, key[6:], skipped, err)
				}
				if (a == nil) != (wire == nil) {
					t.Fatalf("%s: %x was decoded as %x", typ, a, wire)
				}
				if a == nil {
					continue
				}
				got := wire[3:]
				if typ.Compare(a, got) != 0 {
					t.Fatalf("%s: %x was decoded as %x", typ, a, got)
				}
				if again := typ.AppendOrdered(nil, got, desc); !bytes.Equal(again, key[6:len(key)-5]) {
					t.Fatalf("%s: key %x of the value read from %x", typ, again, key)
				}
				if sameBytes(typ) && !bytes.Equal(a, got) {
					t.Fatalf("%s: %x was decoded as %x", typ, a, got)
				}
			}
		}
	}
}

// sameBytes reports whether every valid value of t is restored from its ordered form byte for byte.
func sameBytes(t *Type) bool {
	switch t.kind {
	case Decimal, Float, Double, Tuple, UDT:
		return false
	}
	for _, e := range t.elems {
		if !sameBytes(e) {
			return false
		}
	}
	return true
}

func TestEqualDecimalsHaveOneKey(t *testing.T) {
	typ := Native(Decimal)
	for _, tc := range []struct{ a, b, back string }{
		{"\x00\x00\x00\x01\x0f", "\x00\x00\x00\x02\x00\x96", "\x00\x00\x00\x01\x0f"},             // 1.5, 1.50
		{"\x00\x00\x00\x00\x64", "\xff\xff\xff\xfe\x01", "\x00\x00\x00\x00\x64"},                 // 100, 1E+2
		{"\x00\x00\x00\x00\x00", "\x7f\xff\xff\xff\x00", "\x00\x00\x00\x00\x00"},                 // 0, 0E-2147483647
		{"\x80\x00\x00\x00\x0a", "\x80\x00\x00\x00\x0a", "\x80\x00\x00\x00\x0a"},                 // 10E+2147483648
		{"\x00\x00\x00\x02\xff\x6a", "\x00\x00\x00\x01\xf1", "\x00\x00\x00\x01\xf1"},             // -1.50, -1.5
		{"\xff\xff\xff\x00\x01", "\xff\xff\xff\x01\x0a", "\xff\xff\xff\x00\x01"},                 // 1E+256, 10E+255
		{"\x00\x00\x00\x00\x00\x80", "\x00\x00\x00\x00\x00\x00\x80", "\x00\x00\x00\x00\x00\x80"}, // 128, not minimal
	} {
		ka, kb := typ.AppendOrdered(nil, []byte(tc.a), false), typ.AppendOrdered(nil, []byte(tc.b), false)
		if !bytes.Equal(ka, kb) {
			t.Errorf("%x and %x have keys %x and %x", tc.a, tc.b, ka, kb)
		}
		got, _, err := typ.ConsumeOrdered(nil, kb, false)
		if err != nil || string(got) != tc.back {
			t.Errorf("key of %x reads %x, %v, want %x", tc.b, got, err, tc.back)
		}
	}
}

func TestMalformedBytesKeepTheirKeyAndSortLast(t *testing.T) {
	for _, typ := range orderedTypes() {
		r := rand.New(rand.NewPCG(5, 6))
		bad := []byte{1, 2, 0}
		if typ.Validate(bad) == nil {
			continue
		}
		for range 20 {
			good := randomWire(r, typ)
			kg, kb := typ.AppendOrdered(nil, good, false), typ.AppendOrdered(nil, bad, false)
			if bytes.Compare(kg, kb) >= 0 && kb[0] == tagMalformed {
				t.Errorf("%s: malformed key %x sorts before %x", typ, kb, kg)
			}
			if got, _, err := typ.ConsumeOrdered(nil, kb, false); err != nil || kb[0] == tagMalformed &&
				!bytes.Equal(got, bad) {
				t.Errorf("%s: malformed %x was decoded as %x, %v", typ, bad, got, err)
			}
		}
	}
}

func TestOrderedFormDoesNotAllocateForScalars(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	dst, back := make([]byte, 0, 4096), make([]byte, 0, 4096)
	for k := Ascii; k <= Varint; k++ {
		typ := Native(k)
		a, b := randomWire(r, typ), randomWire(r, typ)
		if k == Decimal {
			a, b = []byte{0, 0, 0, 2, 0x30, 0x39}, []byte{0, 0, 0, 1, 0x04, 0xD2}
		}
		for _, desc := range []bool{false, true} {
			if n := testing.AllocsPerRun(100, func() {
				dst = typ.AppendOrdered(dst[:0], a, desc)
				back, _, _ = typ.ConsumeOrdered(back[:0], dst, desc)
				_, _ = typ.SkipOrdered(dst, desc)
				typ.Compare(a, b)
			}); n != 0 {
				t.Errorf("%s desc=%t: %v allocations", typ, desc, n)
			}
		}
	}
}

func FuzzConsumeOrdered(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 10))
	for i, typ := range orderedTypes() {
		for range 3 {
			f.Add(uint8(i), false, typ.AppendOrdered(nil, randomWire(r, typ), false))
			f.Add(uint8(i), true, typ.AppendOrdered(nil, randomWire(r, typ), true))
		}
	}
	all := orderedTypes()
	f.Fuzz(func(t *testing.T, i uint8, desc bool, key []byte) {
		typ := all[int(i)%len(all)]
		wire, rest, err := typ.ConsumeOrdered(nil, key, desc)
		if skipped, skipErr := typ.SkipOrdered(key, desc); err == nil && (skipErr != nil || len(skipped) != len(rest)) {
			t.Fatalf("%s: SkipOrdered(%x) leaves %x, %v, ConsumeOrdered %x", typ, key, skipped, skipErr, rest)
		}
		if err != nil {
			if !errors.Is(err, ErrOrdered) {
				t.Fatalf("error %v", err)
			}
			return
		}
		if len(rest) > len(key) {
			t.Fatal("more is left than there was")
		}
		again := typ.AppendOrdered(nil, wire, desc)
		back, _, err := typ.ConsumeOrdered(nil, again, desc)
		if err != nil || typ.Compare(wire, back) != 0 {
			t.Fatalf("%s: %x was decoded as %x, %v", typ, wire, back, err)
		}
	})
}

func FuzzOrderedFormSortsAsCompare(f *testing.F) {
	r := rand.New(rand.NewPCG(11, 12))
	for i, typ := range orderedTypes() {
		f.Add(uint8(i), randomWire(r, typ), randomWire(r, typ))
	}
	all := orderedTypes()
	f.Fuzz(func(t *testing.T, i uint8, a, b []byte) {
		typ := all[int(i)%len(all)]
		ka, kb := typ.AppendOrdered(nil, a, false), typ.AppendOrdered(nil, b, false)
		if typ.Validate(a) != nil || typ.Validate(b) != nil {
			return // the test only checks that nothing panics
		}
		if got, want := bytes.Compare(ka, kb), sign(typ.Compare(a, b)); got != want {
			t.Fatalf("%s: %x, %x: keys order %d, Compare %d", typ, a, b, got, want)
		}
	})
}

func randomOrNull(r *rand.Rand, t *Type) []byte {
	switch r.IntN(30) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	return randomWire(r, t)
}

func sign(c int) int {
	switch {
	case c < 0:
		return -1
	case c > 0:
		return 1
	}
	return 0
}

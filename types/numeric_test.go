package types

import (
	"bytes"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/apd/v3"
)

func TestNumbersRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for _, k := range []Kind{Tinyint, Smallint, Int, Bigint, Counter, Varint} {
		typ := Native(k)
		for range 500 {
			b := randomWire(r, typ)
			x, ok := typ.Big(b)
			if !ok {
				t.Fatalf("%s: %x is not decoded", typ, b)
			}
			v, ok := typ.Int64(b)
			if ok != x.IsInt64() || ok && v != x.Int64() {
				t.Fatalf("%s: %x is %s and %d, %t", typ, b, x, v, ok)
			}
			if ok {
				if back := typ.AppendInt64(nil, v); !bytes.Equal(back, b) || !typ.Kind().FitsInt64(v) {
					t.Fatalf("%s: %d from %x to %x", typ, v, b, back)
				}
			}
			if k == Varint && !bytes.Equal(AppendVarint(nil, x), b) {
				t.Fatalf("%x is %s, which is %x", b, x, AppendVarint(nil, x))
			}
			if d, ok := typ.Decimal(b); !ok || d.String() != x.String() {
				t.Fatalf("%s: %x is %s and the decimal %s", typ, b, x, d)
			}
			want, _ := new(big.Float).SetInt(x).Float64()
			if f, ok := typ.Float64(b); !ok || f != want {
				t.Fatalf("%s: %s as a float is %g", typ, x, f)
			}
		}
	}
	typ := Native(Decimal)
	for range 500 {
		b := randomWire(r, typ)
		d, ok := typ.Decimal(b)
		if !ok {
			t.Fatalf("%x is not decoded", b)
		}
		back := AppendDecimal(nil, d)
		if !bytes.Equal(back, b) {
			t.Fatalf("%x is %s, which is %x", b, d, back)
		}
	}
}

func TestFitsInt64(t *testing.T) {
	for _, tc := range []struct {
		kind Kind
		v    int64
		want bool
	}{
		{Tinyint, 127, true}, {Tinyint, 128, false}, {Tinyint, -128, true}, {Tinyint, -129, false},
		{Smallint, 32768, false}, {Int, math.MaxInt32, true}, {Int, math.MaxInt32 + 1, false},
		{Bigint, math.MinInt64, true}, {Varint, math.MaxInt64, true}, {Counter, math.MaxInt64, true},
	} {
		if got := tc.kind.FitsInt64(tc.v); got != tc.want {
			t.Errorf("%s has %d: %t", Native(tc.kind), tc.v, got)
		}
	}
}

func TestWidestNumber(t *testing.T) {
	for _, tc := range []struct{ a, b, want Kind }{
		{Tinyint, Tinyint, Tinyint}, {Tinyint, Smallint, Smallint}, {Int, Smallint, Int}, {Int, Bigint, Bigint},
		{Counter, Int, Bigint}, {Varint, Tinyint, Varint}, {Int, Float, Float}, {Bigint, Float, Double},
		{Int, Double, Double}, {Varint, Float, Decimal}, {Decimal, Tinyint, Decimal}, {Float, Float, Float},
		{Counter, Counter, Bigint}, {Decimal, Double, Decimal}, {Varint, Double, Decimal},
	} {
		for range 2 {
			if got := WidestNumber(Native(tc.a), Native(tc.b)); got.Kind() != tc.want {
				t.Errorf("%s and %s give %s, want %s", Native(tc.a), Native(tc.b), got, Native(tc.want))
			}
			tc.a, tc.b = tc.b, tc.a
		}
	}
}

func TestFloatsBecomeTheirShortestDecimal(t *testing.T) {
	for _, tc := range []struct {
		kind Kind
		f    float64
		want string
	}{{Double, 0.1, "0.1"}, {Float, 0.1, "0.1"}, {Double, 1e100, "1.0E+100"}, {Double, 12, "12.0"}} {
		typ := Native(tc.kind)
		d, ok := typ.Decimal(typ.AppendFloat64(nil, tc.f))
		if !ok || d.String() != tc.want {
			t.Errorf("%s %g is %s, %t, want %s", typ, tc.f, d, ok, tc.want)
		}
	}
	if _, ok := Native(Double).Decimal(Native(Double).AppendFloat64(nil, math.NaN())); ok {
		t.Error("NaN is a decimal")
	}
	if got := AppendDecimal(nil, apd.New(-150, -2)); !bytes.Equal(got, []byte{0, 0, 0, 2, 0xFF, 0x6A}) {
		t.Errorf("-1.50 is %x", got)
	}
}

func TestInvalidNumbers(t *testing.T) {
	for _, typ := range []*Type{Native(Int), Native(Varint), Native(Decimal), Native(Double), Native(Text),
		Native(Timestamp)} {
		for _, b := range [][]byte{nil, {}, {1, 2, 3}} {
			if typ.Kind() == Varint && len(b) == 3 {
				continue
			}
			if _, ok := typ.Int64(b); ok {
				t.Errorf("%s %x is an int64", typ, b)
			}
			if _, ok := typ.Float64(b); ok {
				t.Errorf("%s %x is a float64", typ, b)
			}
			if _, ok := typ.Decimal(b); ok {
				t.Errorf("%s %x is a decimal", typ, b)
			}
		}
	}
}

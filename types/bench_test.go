package types

import (
	"math/rand/v2"
	"testing"
)

func BenchmarkOrdered(b *testing.B) {
	r := rand.New(rand.NewPCG(61, 62))
	for _, typ := range []*Type{Native(Int), Native(Bigint), Native(Text), Native(Timeuuid), Native(Decimal),
		NewTuple(Native(Int), Native(Text))} {
		v := randomWire(r, typ)
		if typ.Kind() == Text {
			v = []byte("a text of some length")
		}
		key := typ.AppendOrdered(nil, v, false)
		dst := make([]byte, 0, 256)
		b.Run("append/"+typ.String(), func(b *testing.B) {
			for b.Loop() {
				dst = typ.AppendOrdered(dst[:0], v, false)
			}
		})
		b.Run("consume/"+typ.String(), func(b *testing.B) {
			for b.Loop() {
				dst, _, _ = typ.ConsumeOrdered(dst[:0], key, false)
			}
		})
		b.Run("validate/"+typ.String(), func(b *testing.B) {
			for b.Loop() {
				if typ.Validate(v) != nil {
					b.Fatal()
				}
			}
		})
		b.Run("compare/"+typ.String(), func(b *testing.B) {
			for b.Loop() {
				typ.Compare(v, v)
			}
		})
	}
}

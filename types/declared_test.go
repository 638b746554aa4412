package types

import (
	"math/rand/v2"
	"testing"
)

// randomType returns a type of at most depth levels. Parts are randomly frozen where the type preserves that.
func randomType(r *rand.Rand, depth int) *Type {
	if depth == 0 || r.IntN(4) == 0 {
		return Native([]Kind{Int, Text, Varint, Timeuuid}[r.IntN(4)])
	}
	part := func() *Type { return randomType(r, depth-1) }
	frozen := r.IntN(2) == 0
	switch r.IntN(6) {
	case 0:
		return NewList(part(), frozen)
	case 1:
		return NewSet(part(), frozen)
	case 2:
		return NewMap(part(), part(), frozen)
	case 3:
		return NewTuple(part(), part())
	case 4:
		return NewUDT("ks", "u", []string{"a", "B"}, []*Type{part(), part()}, frozen)
	}
	return NewVector(part(), 1+r.IntN(3))
}

// TestDeclaredTypesAreKept checks that a type is restored from its class as it was declared, also if only parts are
// frozen.
func TestDeclaredTypesAreKept(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 5000 {
		typ := randomType(r, 4)
		back, err := ParseDeclaredClass(typ.DeclaredClass())
		if err != nil || !back.Equal(typ) || back.DeclaredClass() != typ.DeclaredClass() {
			t.Fatalf("%s: its class %s reads as %v, %v", typ, typ.DeclaredClass(), back, err)
		}
	}
}

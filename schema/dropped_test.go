package schema

import (
	"math/rand/v2"
	"testing"

	"cqld/types"
)

// randomType returns a type that a column may have, with user types.
func randomType(rng *rand.Rand, depth int, frozen bool) *types.Type {
	part := func() *types.Type { return randomType(rng, depth-1, true) }
	kinds := 6
	if depth == 0 {
		kinds = 1
	}
	switch rng.IntN(kinds) {
	case 1:
		return types.NewList(part(), frozen)
	case 2:
		return types.NewMap(types.Native(types.Int), part(), frozen)
	case 3:
		return types.NewTuple(part(), part())
	case 4:
		return types.NewUDT("ks", "u", []string{"a", "b"}, []*types.Type{part(), part()}, true)
	case 5:
		return types.NewVector(part(), 2)
	}
	natives := []types.Kind{types.Int, types.Bigint, types.Timestamp, types.Text, types.Blob, types.Varint, types.UUID}
	return types.Native(natives[rng.IntN(len(natives))])
}

// A dropped column may be added again, and by the type that is recorded. Its record contains no user types, except in
// vectors, and a type that may replace another one is stored as that is: with one cell or with several.
func TestDroppedColumnsMayBeAddedAgain(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 1))
	replaced := 0
	for range 20_000 {
		a, b := randomType(rng, 2, false), randomType(rng, 2, false)
		recorded := ExpandUserTypes(a)
		if !readable(a, recorded) || !readable(recorded, recorded) || !readable(a, a) {
			t.Fatalf("%v cannot be added again after %v", a, recorded)
		}
		if !recorded.Equal(ExpandUserTypes(recorded)) || recorded.MultiCell() != a.MultiCell() {
			t.Fatalf("%v is recorded as %v", a, recorded)
		}
		if !readable(b, recorded) {
			continue
		}
		if b.MultiCell() != a.MultiCell() || b.FixedLength() != recorded.FixedLength() {
			t.Fatalf("%v may replace %v", b, recorded)
		}
		if !b.Equal(a) {
			replaced++
		}
	}
	if replaced == 0 {
		t.Error("no type replaces another one")
	}
}

// TestLastDropDecidesOnCounters: a table without columns besides its key is a counter table if its last drop was of a
// counter. Earlier versions added other columns to a table that had lost its counters.
func TestLastDropDecidesOnCounters(t *testing.T) {
	dropped := func(kind types.Kind, micros int64) DroppedColumn {
		return DroppedColumn{Column: Column{Type: types.Native(kind)}, Micros: micros}
	}
	for _, test := range []struct {
		dropped []DroppedColumn
		counter bool
	}{
		{nil, false},
		{[]DroppedColumn{dropped(types.Int, 1)}, false},
		{[]DroppedColumn{dropped(types.Counter, 1)}, true},
		{[]DroppedColumn{dropped(types.Counter, 1), dropped(types.Int, 2)}, false},
		{[]DroppedColumn{dropped(types.Int, 3), dropped(types.Counter, 2)}, false}, // dropped before, too
		{[]DroppedColumn{dropped(types.Counter, 2), dropped(types.Counter, 1), dropped(types.Int, 1)}, true},
	} {
		table := &Table{Dropped: test.dropped}
		if got := table.IsCounter(); got != test.counter {
			t.Errorf("%v: counter table %v, want %v", test.dropped, got, test.counter)
		}
	}
}

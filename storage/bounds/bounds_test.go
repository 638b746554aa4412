package bounds

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// TestBoundsAreNotLess compares bounds with the greatest timestamps of partitions and with ceilings from disk.
func TestBoundsAreNotLess(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	b := new(Bounds)
	b.table(1).open(40)
	b.table(2).open(math.MaxInt64)
	type partition struct {
		table schema.StorageID
		token ring.Token
	}
	newest := map[partition]int64{}
	for range 20_000 {
		p := partition{schema.StorageID(1 + rng.IntN(3)), ring.Token(rng.IntN(500))}
		timestamp := rng.Int64N(100) - 10
		b.Note(p.table, p.token, timestamp)
		newest[p] = max(newest[p], timestamp)
		if p.table == 1 {
			newest[p] = max(newest[p], 40)
		}
		if b.Reached(p.table, p.token, newest[p]-1) {
			t.Fatalf("%v: a deletion before the newest row shadows all", p)
		}
		if p.table != 2 && !b.Reached(p.table, p.token, 100) || p.table == 2 && b.Reached(p.table, p.token, 100) {
			t.Fatalf("%v: bounds of the table are not used", p)
		}
	}
	if b.Reached(2, 1000, math.MaxInt64-1) || !b.Reached(9, 1000, 0) {
		t.Error("partitions without notes")
	}
}

// TestCeilings shows which ceilings are required.
func TestCeilings(t *testing.T) {
	b := new(Bounds)
	x := b.table(1)
	expect := func(stored, required int64) {
		t.Helper()
		if s, r := x.required(10); s != stored || r != required {
			t.Errorf("ceilings %d, %d, want %d, %d", s, r, stored, required)
		}
	}
	expect(0, 0)
	b.Note(1, 7, -5)
	expect(0, 0)
	b.Note(1, 7, 20)
	expect(0, 30)
	Raised{{x, 30}}.Committed()
	b.Note(1, 8, 30)
	expect(30, 30)
	b.Note(1, 8, 31)
	expect(30, 41)
	Raised{{x, 41}}.Committed()
	Raised{{x, 35}}.Committed() // of a commit that ended later
	expect(41, 41)
	b.Note(1, 8, math.MaxInt64-3)
	expect(41, math.MaxInt64)
}

// TestShadowedIntervals compares intervals with the deletion of each clustering.
func TestShadowedIntervals(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 3_000 {
		var raw []row.RangeTombstone
		for range rng.IntN(6) {
			start := byte(rng.IntN(30))
			raw = append(raw, row.RangeTombstone{
				Start: []byte{start}, End: []byte{start + byte(1+rng.IntN(8))},
				Deletion: row.Deletion{Timestamp: int64(1 + rng.IntN(5)), LocalTime: 1},
			})
		}
		tombstones := row.NormalizeRangeTombstones(raw, row.NoDeletion())
		bound := int64(1 + rng.IntN(5))
		shadowed := func(c byte) bool { return row.DeletionAt(tombstones, []byte{c}).Timestamp >= bound }
		at := byte(rng.IntN(40))
		start, end, ok := Shadowed(tombstones, []byte{at}, func(d row.Deletion) bool { return d.Timestamp >= bound })
		if ok != shadowed(at) {
			t.Fatalf("%v: interval around %d: %t", tombstones, at, ok)
		}
		if !ok {
			continue
		}
		if bytes.Compare(start, []byte{at}) > 0 || bytes.Compare([]byte{at}, end) >= 0 {
			t.Fatalf("%v: the interval from %v to %v is not around %d", tombstones, start, end, at)
		}
		for c := start[0]; c < end[0]; c++ {
			if !shadowed(c) {
				t.Fatalf("%v: %d is not shadowed with bound %d", tombstones, c, bound)
			}
		}
		if start[0] > 0 && shadowed(start[0]-1) || shadowed(end[0]) {
			t.Fatalf("%v: the interval from %v to %v is too small", tombstones, start, end)
		}
	}
}

package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// TestLostRangeIsNotReadUntilItIsLifted corrupts a file, puts it in quarantine, restarts, repairs by hand.
func TestLostRangeIsNotReadUntilItIsLifted(t *testing.T) {
	mem := vfs.NewMem()
	clock := newTestClock()
	info := func(id schema.StorageID) TableInfo {
		return TableInfo{Exists: id == testTable || id == testTable+1, GC: GCDisabled}
	}
	options := Options{FS: mem, Inline: true, Clock: clock, Table: info}
	e := openTest(t, options)
	var ms []*row.Mutation
	for i := range 300 {
		m := putRow(fmt.Sprint("key", i), i, 1, fmt.Sprint("value", i))
		mustApply(t, e, m)
		ms = append(ms, m)
	}
	if err := errors.Join(e.Flush(), e.Close()); err != nil {
		t.Fatal(err)
	}
	flipBit(t, mem, flips/3)
	e = openTest(t, options)
	all := &row.ReadCommand{Table: testTable, Range: row.KeyRange{Tokens: ring.FullRange()},
		Slices: []row.Slice{row.AllRows()}}
	other := &row.ReadCommand{Table: testTable + 1, Range: all.Range, Slices: all.Slices}
	if _, err := e.Read(nil, all); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("read of a corrupt file: %v", err)
	}
	lost, err := e.Quarantine()
	if err != nil || len(lost) != 1 || lost[0].Table != testTable || len(e.Corruptions()) != 0 {
		t.Fatalf("lost %v, %v", lost, err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = openTest(t, options)
	defer e.Close()
	if got := e.Lost(); len(got) != 1 || got[0] != lost[0] {
		t.Fatalf("after a restart, lost is %v, not %v", got, lost)
	}
	check := func(when string, corrupt bool) {
		t.Helper()
		_, err := e.Read(nil, all)
		_, one := e.Read(nil, readKey("key17"))
		_, _, export := e.Export(nil, testTable, ring.FullRange(), nil, nil, 1000)
		for _, err := range []error{err, one, export} {
			if errors.Is(err, ErrCorrupt) != corrupt || !corrupt && err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		if _, err := e.Read(nil, other); err != nil {
			t.Errorf("%s: another table: %v", when, err)
		}
	}
	check("lost", true)
	mustApply(t, e, ms...) // as a repair does, whose reads must get through
	repair := *all
	repair.Repair = new(row.Repair)
	page, err := e.Read(nil, &repair)
	if got := rows(t, page); err != nil || len(got) != 300 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	check("written", true)
	if err := e.Lift(testTable, ring.FullRange(), lost[0].Since-1); err != nil {
		t.Fatal(err)
	}
	check("an earlier repair", true)
	if err := e.Lift(testTable, ring.Range{Start: 5, End: 4}, lost[0].Since); err != nil {
		t.Fatal(err)
	}
	if got := e.Lost(); len(got) != 1 || got[0].Tokens != (ring.Range{Start: 4, End: 5}) {
		t.Fatalf("all but one token was lifted: %v", got)
	}
	if err := e.Lift(testTable, ring.FullRange(), lost[0].Since); err != nil {
		t.Fatal(err)
	}
	check("lifted", false)
}

// TestRangesAreSets compares the arithmetic with looking at tokens one by one.
func TestRangesAreSets(t *testing.T) {
	tokens := []ring.Token{ring.MinToken, ring.MinToken + 1, -3, 0, 1, 2, 9, ring.MaxToken}
	rng := rand.New(rand.NewPCG(1, 1))
	draw := func() ring.Range {
		for {
			if r := (ring.Range{Start: tokens[rng.IntN(len(tokens))], End: tokens[rng.IntN(len(tokens))]}); !r.Wraps() {
				return r
			}
		}
	}
	for range 3000 {
		a, b := draw(), draw()
		within := func(rs []ring.Range, at ring.Token) bool {
			for _, r := range rs {
				if r.Wraps() {
					t.Fatalf("%v of %v and %v wraps", r, a, b)
				}
				if r.Contains(at) {
					return true
				}
			}
			return false
		}
		for _, at := range tokens[1:] {
			if got := within(cutRange(a, b), at); got != (a.Contains(at) && b.Contains(at)) {
				t.Fatalf("%v and %v: %v is in it: %v", a, b, at, got)
			}
			if got := within(withoutRange([]ring.Range{a}, b), at); got != (a.Contains(at) && !b.Contains(at)) {
				t.Fatalf("%v without %v: %v is in it: %v", a, b, at, got)
			}
		}
	}
}

package storage

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/tableinfo"
)

// TestLostRangeIsNotReadUntilItIsLifted corrupts a file, puts it in quarantine, restarts, repairs by hand.
func TestLostRangeIsNotReadUntilItIsLifted(t *testing.T) {
	mem := vfs.NewMem()
	clock := newTestClock()
	info := func(id schema.StorageID) tableinfo.Info {
		return tableinfo.Info{Exists: id == testTable || id == testTable+1, GC: tableinfo.GCDisabled}
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
	if _, err := e.Read(nil, all); !errors.Is(err, failure.ErrCorrupt) {
		t.Fatalf("read of a corrupt file: %v", err)
	}
	lost, err := e.Quarantine()
	if err != nil || len(lost) != 1 || lost[0].Table != testTable || len(e.db.Corruptions()) != 0 {
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
			if errors.Is(err, failure.ErrCorrupt) != corrupt || !corrupt && err != nil {
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

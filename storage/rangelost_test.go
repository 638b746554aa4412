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

// TestQuarantineKeepsOtherTables corrupts one block of a file that reaches from table 1 to table 3 and has nothing of
// table 2. Table 2 is in another file, and most of table 1 and all of table 3 can be read.
func TestQuarantineKeepsOtherTables(t *testing.T) {
	const first, between, last = testTable, testTable + 1, testTable + 2
	mem := vfs.NewMem()
	options := Options{FS: mem, Inline: true, blockBytes: 1 << 10, Table: func(id schema.StorageID) tableinfo.Info {
		return tableinfo.Info{Exists: id >= first && id <= last, GC: tableinfo.GCDisabled}
	}}
	e := openTest(t, options)
	put := func(table schema.StorageID) {
		for i := range 300 {
			m := putRow(fmt.Sprint("key", i), i, 1, fmt.Sprint("value", i))
			m.Table = table
			mustApply(t, e, m)
		}
	}
	put(between)
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	put(first)
	put(last)
	if err := errors.Join(e.Flush(), e.Close()); err != nil {
		t.Fatal(err)
	}
	flipBit(t, mem, flips/6) // in the first table
	e = openTest(t, options)
	defer e.Close()
	read := func(table schema.StorageID, tokens ring.Range) ([]byte, error) {
		return e.Read(nil, &row.ReadCommand{Table: table, Range: row.KeyRange{Tokens: tokens},
			Slices: []row.Slice{row.AllRows()}})
	}
	if _, err := read(first, ring.FullRange()); !errors.Is(err, failure.ErrCorrupt) {
		t.Fatalf("read of a corrupt file: %v", err)
	}
	lost, err := e.Quarantine()
	if err != nil || len(lost) != 1 || lost[0].Table != first {
		t.Fatalf("lost %v, %v", lost, err)
	}
	for _, table := range []schema.StorageID{between, last} {
		page, err := read(table, ring.FullRange())
		if err != nil || len(rows(t, page)) != 300 {
			t.Errorf("table %d has %d rows of 300, error %v", table, len(rows(t, page)), err)
		}
	}
	left := 0
	for _, tokens := range []ring.Range{{Start: ring.MinToken, End: lost[0].Tokens.Start},
		{Start: lost[0].Tokens.End, End: ring.MinToken}} {
		page, err := read(first, tokens)
		if err != nil {
			t.Errorf("tokens %v: %v", tokens, err)
			continue
		}
		left += len(rows(t, page))
	}
	if left < 200 || left == 300 {
		t.Errorf("%d rows of 300 are left outside %v, which was one block", left, lost[0].Tokens)
	}
}

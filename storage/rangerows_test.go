package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/storage/block"
	"cqld/storage/rowkey"
)

// evenClustering selects half of the rows that rowsOfTwoKinds writes.
func evenClustering(clustering []byte) bool { return bytes.HasPrefix(clustering, []byte("even")) }

// rowsOfTwoKinds writes partitions with rows of two kinds, and partitions with rows of one of them. It returns the
// number of each.
func rowsOfTwoKinds(t *testing.T, e *Engine) (even, odd int) {
	t.Helper()
	write := func(i int, kind string) {
		m := new(row.Mutation)
		m.Reset(testTable, row.NewPartitionKey([]byte(fmt.Sprint("key", i))))
		r := row.NewRow()
		r.Clustering, r.Liveness.Timestamp = []byte(kind), 1
		m.AddRow(r)
		mustApply(t, e, m)
	}
	for i := range 1500 {
		if i%3 != 0 {
			write(i, "even")
			even++
		}
		if i%3 != 1 {
			write(i, "odd")
			odd++
		}
	}
	return even, odd
}

// countRows returns the number of rows of each kind in a range.
func countRows(t *testing.T, e *Engine, tokens ring.Range) (even, odd int) {
	t.Helper()
	count := func(n *int, of func([]byte) bool) {
		err := e.removals.scanRows(testTable, tokens, nil, of, func(_, _ []byte) bool { *n++; return true })
		if err != nil {
			t.Fatal(err)
		}
	}
	count(&even, evenClustering)
	count(&odd, func(clustering []byte) bool { return !evenClustering(clustering) })
	return even, odd
}

// TestDropRowsRemovesOnlySelectedRows drops the rows of one kind in half of the ring, in several batches.
func TestDropRowsRemovesOnlySelectedRows(t *testing.T) {
	e := openTest(t, Options{})
	rowsOfTwoKinds(t, e)
	lower, upper := ring.Range{Start: ring.MinToken, End: 0}, ring.Range{Start: 0, End: ring.MinToken}
	evenLower, oddLower := countRows(t, e, lower)
	evenUpper, oddUpper := countRows(t, e, upper)
	if evenLower == 0 || oddLower == 0 || evenUpper <= dropRowsBatch/2 || oddUpper == 0 {
		t.Fatalf("%d, %d, %d and %d rows", evenLower, oddLower, evenUpper, oddUpper)
	}
	none := ring.Range{Start: 5, End: 5 + 1}
	if found, err := e.HasRows(testTable, none, evenClustering); found || err != nil {
		t.Errorf("an empty range has rows: %v, %v", found, err)
	}
	if err := e.DropRows(testTable, upper, evenClustering); err != nil {
		t.Fatal(err)
	}
	if found, err := e.HasRows(testTable, upper, evenClustering); found || err != nil {
		t.Errorf("selected rows are left: %v, %v", found, err)
	}
	if even, odd := countRows(t, e, upper); even != 0 || odd != oddUpper {
		t.Errorf("%d and %d rows are left in the range, want 0 and %d", even, odd, oddUpper)
	}
	if even, odd := countRows(t, e, lower); even != evenLower || odd != oddLower {
		t.Errorf("%d and %d rows are left outside the range, want %d and %d", even, odd, evenLower, oddLower)
	}
}

// TestExportOfSelectedRows compares exports with blocks of any size: together they have exactly the selected rows, in
// order.
func TestExportOfSelectedRows(t *testing.T) {
	e := openTest(t, Options{})
	even, _ := rowsOfTwoKinds(t, e)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var keys [][]byte
		var after []byte
		blocks := 0
		for more := true; more; more = after != nil {
			out, next, err := e.Export(nil, testTable, ring.FullRange(), evenClustering, after, 1+rng.IntN(4000))
			if err != nil {
				t.Fatal(err)
			}
			for b := block.NewReader(out); b.Next(); {
				keys = append(keys, bytes.Clone(b.Key))
			}
			if next != nil && bytes.Compare(next, after) <= 0 {
				t.Fatalf("block %d does not advance", blocks)
			}
			after = next
			blocks++
		}
		if len(keys) != even || !slices.IsSortedFunc(keys, bytes.Compare) {
			t.Fatalf("%d blocks have %d rows, want %d in order", blocks, len(keys), even)
		}
		for _, key := range keys {
			if _, _, suffix, err := rowkey.Parse(key); err != nil || !evenClustering(suffix[1:]) {
				t.Fatalf("key %x was exported: %v", key, err)
			}
		}
	}
	out, _, err := e.Export(nil, testTable, ring.FullRange(), func([]byte) bool { return false }, nil, 1<<20)
	if err != nil || len(out) != 0 {
		t.Errorf("without a selected row: %d bytes, %v", len(out), err)
	}
}

// TestEditChangesRowsOnly edits the rows of a block: the keys stay, and an edit that changes nothing yields the same
// entries.
func TestEditChangesRowsOnly(t *testing.T) {
	e := openTest(t, Options{})
	rowsOfTwoKinds(t, e)
	out, _, err := e.Export(nil, testTable, ring.FullRange(), nil, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	same, err := block.Edit(out, func(row.PartitionKey, *row.Row) error { return nil })
	if err != nil || !bytes.Equal(same, out) {
		t.Errorf("an edit that changes nothing: %v, %d bytes of %d", err, len(same), len(out))
	}
	edited, err := block.Edit(out, func(_ row.PartitionKey, r *row.Row) error {
		r.Liveness.Timestamp = 7
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	before, after := block.NewReader(out), block.NewReader(edited)
	for before.Next() {
		r := row.NewRow()
		if !after.Next() || !bytes.Equal(before.Key, after.Key) {
			t.Fatalf("key %x became %x", before.Key, after.Key)
		}
		if err := row.DecodeRow(r, after.Value); err != nil || r.Liveness.Timestamp != 7 {
			t.Fatalf("row of key %x: %+v, %v", after.Key, r, err)
		}
	}
	if after.Next() {
		t.Error("the edited block has more entries")
	}
	for i := range out[:200] {
		if _, err := block.Edit(out[:i], func(row.PartitionKey, *row.Row) error { return nil }); err != nil &&
			!errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrShort) {
			t.Errorf("a block of %d bytes: %v", i, err)
		}
	}
}

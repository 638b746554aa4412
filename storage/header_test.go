package storage

import (
	"errors"
	"math"
	"runtime"
	"testing"

	"cqld/row"
)

// largeHeader returns a partition with a static collection of n elements of 4 bytes, and rows.
func largeHeader(n, rows int) []*row.Mutation {
	m := new(row.Mutation)
	m.Reset(testTable, row.NewPartitionKey([]byte("k")))
	header := row.NewRow()
	for i := range n {
		path := []byte{0, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}
		header.Cells = append(header.Cells, row.Cell{Column: 1, Path: path, Timestamp: 9, Value: path[1:]})
	}
	m.AddHeader(header)
	ms := []*row.Mutation{m}
	for i := range rows {
		ms = append(ms, putRow("k", i, 5, "v"))
	}
	return ms
}

// A read of a large static row, with and without a filter on it, takes memory of a few times its encoded size: decoded
// cells took twenty times as much (issue 23, 1a).
func TestStaticRowsAreNotDecoded(t *testing.T) {
	e := openTest(t, Options{})
	defer e.Close()
	mustApply(t, e, largeHeader(100_000, 3)...)
	cmd := &row.ReadCommand{Table: testTable, Key: row.NewPartitionKey([]byte("k")), Slices: []row.Slice{row.AllRows()},
		Now: 10}
	read := func(dst []byte) []byte {
		page, err := e.Read(dst, cmd)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	page := read(nil)
	least := uint64(math.MaxUint64)
	for range 5 { // under the race detector, pools forget buffers
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		read(page[:0])
		if _, err := e.Newest(cmd); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	if least > 5*uint64(len(page)) {
		t.Errorf("a page of %d bytes has allocated %d", len(page), least)
	}
}

// A page counts the reader's copy of a large static row, so that the memory of the request bounds both. The size for
// which it asks suffices for as many bytes of rows.
func TestPagesCountTheCopyOfTheStaticRow(t *testing.T) {
	const rows = 2_000
	e := openTest(t, Options{})
	defer e.Close()
	mustApply(t, e, largeHeader(2_000, rows)...)
	cmd := &row.ReadCommand{Table: testTable, Key: row.NewPartitionKey([]byte("k")), Slices: []row.Slice{row.AllRows()},
		Now: 10}
	cmd.Slices = nil
	whole, err := e.Read(nil, cmd)
	if err != nil {
		t.Fatal(err)
	}
	header := len(whole)
	cmd.Slices = []row.Slice{row.AllRows()}
	cmd.Limits.Bytes = uint32(header + header/2)
	_, err = e.Read(nil, cmd)
	var small *row.PageTooSmall
	if !errors.As(err, &small) {
		t.Fatalf("a page of %d bytes has a static row of %d and its copy: %v", cmd.Limits.Bytes, header, err)
	}
	cmd.Limits.Bytes = uint32(small.Bytes)
	page, err := e.Read(nil, cmd)
	if err != nil {
		t.Fatal(err)
	}
	if n := row.ContentsOf(page).Rows; n < rows/4 || len(page)+header > small.Bytes+8 {
		t.Errorf("a page of at most %d bytes has %d, with %d rows of %d", small.Bytes, len(page), n, rows)
	}
}

package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/scan"
)

// pageRows returns the rows, headers and range tombstones that a scan reads, each once, with pages of at most size
// bytes; 0 means without a bound. A row that does not fit is read again with a page of the size that it needs.
func pageRows(t *testing.T, e *Engine, c *scan.Cursor, size int) (out []string) {
	t.Helper()
	limit := size
	var cmd row.ReadCommand
	for c.Next(&cmd) {
		cmd.Limits.Bytes = uint32(limit)
		page, err := e.Read(nil, &cmd)
		var small *row.PageTooSmall
		if errors.As(err, &small) {
			if small.Bytes <= limit {
				t.Fatalf("a page of %d bytes is too small for one of %d", limit, small.Bytes)
			}
			limit = small.Bytes
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		const ends = 3 // of the partition and of the page
		if limit > 0 && len(page) > limit+ends {
			t.Fatalf("a page of %d bytes, at most %d were allowed", len(page), limit)
		}
		limit = size
		for c.Page(page); c.NextPartition(); {
			key := string(c.Reader.Key.Bytes)
			out = append(out, fmt.Sprint(key, " header ", c.Reader.Header.Deletion, c.Reader.Header.Cells))
			var x row.Row
			for c.NextRow(&x) {
				out = append(out, fmt.Sprintf("%s %x %v", key, x.Clustering, x.Cells))
			}
		}
		if err := c.EndPage(); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(out) // a header is in each page of its partition
	return slices.Compact(out)
}

// randomPartition returns a mutation with a header, rows and tombstones of random sizes.
func randomPartition(r *rand.Rand) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(testTable, row.NewPartitionKey([]byte{'a' + byte(r.IntN(6))}))
	value := func() []byte { return bytes.Repeat([]byte{'v'}, r.IntN(1<<r.IntN(13))) }
	if r.IntN(2) == 0 {
		header := row.NewRow()
		header.Cells = []row.Cell{{Column: 2, Timestamp: 5, Value: value()}}
		m.AddHeader(header)
	}
	for range r.IntN(8) {
		x := row.NewRow()
		x.Clustering = clusteringOf(r.IntN(30))
		x.Cells = []row.Cell{{Column: 3, Timestamp: 5, Value: value()}}
		switch r.IntN(5) {
		case 0:
			x.Cells[0] = row.Cell{Column: 3, Timestamp: 6, Tombstone: true, LocalTime: 1 << 40}
		case 1:
			x.Complex = []row.ComplexDeletion{{Column: 3, Deletion: row.Deletion{Timestamp: 4, LocalTime: 1 << 40}}}
		case 2:
			x.Deletion = row.Deletion{Timestamp: 5, LocalTime: 1 << 40}
		}
		m.AddRow(x)
	}
	if r.IntN(3) == 0 {
		at := r.IntN(25)
		m.AddRangeTombstone(row.RangeTombstone{Start: clusteringOf(at), End: clusteringOf(at + 5),
			Deletion: row.Deletion{Timestamp: 5, LocalTime: 1 << 40}})
	}
	return m
}

// TestPageBytes reads random tables with pages of random sizes: together, they contain the same rows as a single page.
func TestPageBytes(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		e := openTest(t, Options{})
		for range 1 + r.IntN(12) {
			mustApply(t, e, randomPartition(r))
		}
		for range 6 {
			command := row.ReadCommand{Table: testTable, Slices: []row.Slice{row.AllRows()}, Now: 10,
				Reversed: r.IntN(2) == 0, StaticCounts: r.IntN(2) == 0}
			if r.IntN(2) == 0 {
				command.Slices = []row.Slice{{Start: clusteringOf(3), End: clusteringOf(9)}, {Start: clusteringOf(12)}}
			}
			cursor := func() *scan.Cursor { return &scan.Cursor{Command: command, Tokens: ring.FullRange()} }
			size := 1 + r.IntN(1<<r.IntN(14))
			if got, want := pageRows(t, e, cursor(), size), pageRows(t, e, cursor(), 0); !slices.Equal(got, want) {
				t.Fatalf("seed %d, pages of %d bytes:\n%.2000q\nwant\n%.2000q", seed, size, got, want)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

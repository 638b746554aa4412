package storage

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"

	"cqld/row"
)

// TestCachedReadsShowOneState reads a row and the static row of its partition, which are written together, while they
// are written: each page shows the same number in both, and none shows a smaller one than an earlier page.
func TestCachedReadsShowOneState(t *testing.T) {
	if wrong := raceCache(t, 5_000); wrong > 0 {
		t.Fatalf("%d pages are wrong", wrong)
	}
}

// raceCache reads a partition while it is written, until so many entries were found in the cache. It returns how many
// pages were wrong.
func raceCache(t *testing.T, hits int64) (wrong int64) {
	e := openTest(t, Options{Sync: SyncNone})
	defer e.Close()
	var wait sync.WaitGroup
	var stop atomic.Bool
	var found atomic.Int64
	both := func(n uint64) *row.Mutation {
		cell := func(r *row.Row) *row.Row {
			r.Cells = []row.Cell{{Column: 1, Timestamp: int64(n), Value: binary.BigEndian.AppendUint64(nil, n)}}
			return r
		}
		return mutate("a", func(m *row.Mutation) {
			m.AddHeader(cell(row.NewRow()))
			r := cell(row.NewRow())
			r.Clustering = clusteringOf(1)
			m.AddRow(r)
		})
	}
	mustApply(t, e, both(1))
	for range 3 {
		cmd := readKey("a")
		cmd.Slices = []row.Slice{exactRow(1)}
		wait.Go(func() {
			last := uint64(0)
			for !stop.Load() {
				page, err := e.Read(nil, cmd)
				if err != nil {
					t.Error(err)
					return
				}
				static, n := numbersIn(page)
				if static != n || n < last {
					found.Add(1)
				}
				last = n
			}
		})
	}
	for n := uint64(2); (n < 1_000 || e.Metrics().Rows.Hits < hits) && !t.Failed(); n++ {
		mustApply(t, e, both(n))
	}
	stop.Store(true)
	wait.Wait()
	return found.Load()
}

// numbersIn returns the numbers of the static row and of the row in a page.
func numbersIn(page []byte) (static, n uint64) {
	number := func(r *row.Row) uint64 {
		if len(r.Cells) == 0 {
			return 0
		}
		return binary.BigEndian.Uint64(r.Cells[0].Value)
	}
	var reader row.PageReader
	reader.Reset(page)
	for reader.NextPartition() {
		static = number(&reader.Header)
		for r := row.NewRow(); reader.NextRow(r); {
			n = number(r)
		}
	}
	return static, n
}

// TestRowsOfOtherReadsAreNotCached reads what must not fill the cache: ranges, several rows, tables of the system.
func TestRowsOfOtherReadsAreNotCached(t *testing.T) {
	e := openTest(t, Options{Inline: true})
	defer e.Close()
	mustApply(t, e, putRow("a", 1, 1, "x"))
	for _, slices := range [][]row.Slice{{row.AllRows()}, {exactRow(1), exactRow(2)}, {sliceOf(1)}} {
		cmd := readKey("a")
		cmd.Slices = slices
		mustRead(t, e, cmd)
	}
	if s := e.Metrics().Rows; s.Added != 0 || s.Misses != 0 {
		t.Fatalf("%+v", s)
	}
}

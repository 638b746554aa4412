//go:build !race

// The race detector makes sync.Pool drop items, so that allocations cannot be counted.

package index

import (
	"encoding/binary"
	"testing"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/types"
)

// TestSearchAllocatesPerStep bounds the allocations of a search: those of a step do not grow with its rows, except for
// the memory of the rows themselves.
func TestSearchAllocatesPerStep(t *testing.T) {
	if invariant.Enabled {
		t.Skip("expensive invariants allocate")
	}
	const rows, most = 900, 80
	e, x := openValues(t, true)
	defer e.Close()
	m, r, value := new(row.Mutation), row.NewRow(), []byte("value")
	for i := range rows {
		valuesMutation(m, r, i, value, []byte("rest"))
		mustQueue(t, e, m)
	}
	valuesMutation(m, r, rows, value, []byte("rest"))
	mustApply(t, e, m)
	term := types.Native(types.Text).AppendOrdered(nil, value, false)
	q := &Query{Table: testTable, Index: ofValue, Order: ByToken, Tokens: ring.FullRange(), Limit: rows, Now: 5,
		Terms: []row.Slice{row.ExactRow(term)}}
	allocs := testing.AllocsPerRun(5, func() {
		page, err := x.Search(q)
		if err != nil || len(page.Candidates) != rows {
			t.Error(len(page.Candidates), err)
		}
	})
	if allocs > most {
		t.Errorf("a search that finds %d rows allocates %.0f times, want at most %d", rows, allocs, most)
	}
}

// TestRangeStopsEarly finds the first rows of a range that all rows are in. It bounds the rows that are looked at, and
// the allocations, which would grow with the entries if all were looked at and kept.
func TestRangeStopsEarly(t *testing.T) {
	const rows, limit, most = 20_000, 10, 120
	e, x := openValues(t, true)
	defer e.Close()
	m, r, value := new(row.Mutation), row.NewRow(), make([]byte, 8)
	for i := range rows {
		binary.BigEndian.PutUint64(value, uint64(i))
		valuesMutation(m, r, i, value, []byte("rest"))
		mustQueue(t, e, m)
	}
	mustApply(t, e, m)
	q := &Query{Table: testTable, Index: ofValue, Order: ByToken, Tokens: ring.FullRange(), Limit: limit, Now: 5,
		Terms: []row.Slice{row.AllRows()}}
	before, searches := e.Metrics().Looked, int64(0)
	allocs := testing.AllocsPerRun(5, func() {
		searches++
		page, err := x.Search(q)
		if err != nil || len(page.Candidates) != limit || !page.More {
			t.Error(len(page.Candidates), page.More, err)
		}
	})
	if allocs > most {
		t.Errorf("the first %d of %d rows in a range cost %.0f allocations, want at most %d", limit, rows, allocs, most)
	}
	if looked := (e.Metrics().Looked - before) / searches; looked == 0 || looked > 3*limit {
		t.Errorf("%d rows were looked at for the first %d", looked, limit)
	}
}

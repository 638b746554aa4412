//go:build !race

// The race detector makes sync.Pool drop items, so that allocations cannot be counted.

package index

import (
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/types"
)

// TestSearchAllocatesPerStep bounds the allocations of a search: those of a step do not grow with its rows, except for the memory of
// the rows themselves.
func TestSearchAllocatesPerStep(t *testing.T) {
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
	q := &Query{Table: testTable, Index: ofValue, Order: ByToken, Tokens: ring.FullRange(), Limit: rows, Now: 5, Terms: []row.Slice{row.ExactRow(term)}}
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

package read

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNearestHeapKeepsTheBest replaces the worst row of a full heap, as nearRow does, and compares the rows that remain
// with those of a sort. Scores repeat, so that the order of the table must decide.
func TestNearestHeapKeepsTheBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		limit, n := 1+rng.IntN(10), rng.IntN(40)
		var all []nearestRow
		var kept nearestHeap
		for seen := range n {
			row := nearestRow{score: float32(rng.IntN(6)), seen: seen}
			all = append(all, row)
			switch {
			case len(kept) < limit:
				heap.Push(&kept, row)
			case !row.after(&kept[0]):
				kept[0] = row
				heap.Fix(&kept, 0)
			}
		}
		byRank := func(a, b nearestRow) int {
			if a.after(&b) {
				return 1
			}
			return -1
		}
		slices.SortFunc(all, byRank)
		var got, want []int
		for len(kept) > 0 { // the worst first
			got = append(got, heap.Pop(&kept).(nearestRow).seen)
		}
		for _, r := range all[:min(limit, n)] {
			want = append(want, r.seen)
		}
		slices.Reverse(want)
		if !slices.Equal(got, want) {
			t.Fatalf("limit %d of %d rows: kept %v, want %v", limit, n, got, want)
		}
	}
}

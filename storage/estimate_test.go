package storage

import (
	"fmt"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/storage/estimate"
)

// TestEstimatesAreWithinAFactorOfTwo writes partitions, overwrites them, and compares estimates with counts, for the
// whole ring and for a part of it.
func TestEstimatesAreWithinAFactorOfTwo(t *testing.T) {
	half := []ring.Range{{Start: -1 << 62, End: 1 << 62}}
	for _, n := range []int{0, 1, 7, 48, 49, 300, 5000} {
		for _, flush := range []bool{false, true} {
			t.Run(fmt.Sprint(n, flush), func(t *testing.T) {
				e := openTest(t, Options{})
				defer e.Close()
				inHalf := 0
				for i := range n {
					key := fmt.Sprint("partition ", i)
					if half[0].Contains(row.NewPartitionKey([]byte(key)).Token) {
						inHalf++
					}
					for version := range 3 {
						mustApply(t, e, putRow(key, 1, int64(version), "some value"),
							putRow(key, 2, int64(version), "some value"))
					}
				}
				if flush {
					if err := e.Flush(); err != nil {
						t.Fatal(err)
					}
				}
				check := func(held []ring.Range, want int) {
					p, err := e.EstimatePartitions(testTable, held)
					if err != nil {
						t.Fatal(err)
					}
					got := p.In(held...)
					if all := p.All(); all < got-1 || all > got+1 {
						t.Errorf("%d in all, %d in every range", all, got)
					}
					if n <= estimate.Samples && got != int64(want) || got > int64(2*want) || 2*got < int64(want) {
						t.Errorf("%d partitions in %v, estimated %d", want, held, got)
					}
					if want > 0 && (p.MeanBytes < 60 || p.MeanBytes > 200) {
						t.Errorf("two rows with keys take about 100 bytes, not %d", p.MeanBytes)
					}
				}
				check([]ring.Range{ring.FullRange()}, n)
				check(half, inHalf)
				check([]ring.Range{{Start: 1 << 62, End: -1 << 62}}, n-inHalf) // wraps
			})
		}
	}
}

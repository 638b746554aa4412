package purge

import (
	"testing"

	"cqld/row"
)

// TestRangeTombstonesAreNormalizedOnce checks that the rows of a partition whose deletion supersedes all its range
// tombstones do not normalize these for each row.
func TestRangeTombstonesAreNormalizedOnce(t *testing.T) {
	p := sweptPartition{}
	p.header.Deletion = row.Deletion{Timestamp: 10, LocalTime: 1}
	for i := range byte(100) {
		p.raw = append(p.raw, row.RangeTombstone{Start: []byte{i, 0}, End: []byte{i, 1},
			Deletion: row.Deletion{Timestamp: 5, LocalTime: 1}})
	}
	clustering := []byte{7, 0}
	// AllocsPerRun calls the function once before it counts.
	n := testing.AllocsPerRun(10, func() {
		if d := p.deletionAt(clustering); d.Timestamp != 10 {
			t.Errorf("deletion at %d", d.Timestamp)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations a row", n)
	}
}

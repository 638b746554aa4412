package row

import (
	"testing"
)

// Two slices overlap exactly if a clustering lies in both; if one does, the start of one of them does.
func TestSlicesOverlapIfAClusteringLiesInBoth(t *testing.T) {
	bounds := [][]byte{{}, {0}, {0, 0}, {0, 0xFF}, {1}, {1, 0}, {0xFF}}
	var all []Slice
	for _, start := range bounds {
		all = append(all, Slice{Start: start})
		for _, end := range bounds {
			all = append(all, Slice{Start: start, End: end})
		}
	}
	for _, a := range all {
		for _, b := range all {
			both := false
			for _, c := range bounds {
				both = both || a.Contains(c) && b.Contains(c)
			}
			if a.Overlaps(b) != both {
				t.Errorf("%x and %x: %v", a, b, !both)
			}
		}
	}
}

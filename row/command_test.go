package row

import (
	"bytes"
	"slices"
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

// TestSlicesAfterContainTheLaterClusterings shows that SlicesAfter omits the clusterings up to a row, and no others, in
// both directions.
func TestSlicesAfterContainTheLaterClusterings(t *testing.T) {
	all := [][]byte{{}, {0}, {0, 0}, {0, 0xFF}, {1}, {1, 0}, {0xFF}, {0xFF, 0xFF}}
	contains := func(in []Slice, c []byte) bool {
		return slices.ContainsFunc(in, func(s Slice) bool { return s.Contains(c) })
	}
	for _, in := range [][]Slice{
		{AllRows()}, {ExactRow([]byte{})}, {ExactRow([]byte{0}), ExactRow([]byte{1, 0})},
		{{End: []byte{0, 0}}, {Start: []byte{0, 0xFF}, End: []byte{1, 0}}, {Start: []byte{0xFF}}},
	} {
		for _, last := range all {
			for _, reversed := range []bool{false, true} {
				out := SlicesAfter(in, bytes.Clone(last), reversed)
				for _, c := range all {
					later := bytes.Compare(c, last) > 0
					if reversed {
						later = bytes.Compare(c, last) < 0
					}
					if contains(out, c) != (later && contains(in, c)) {
						t.Errorf("%x after %x, reversed %t: %x, contains %x: %t", in, last, reversed, out, c,
							contains(out, c))
					}
				}
				if slices.ContainsFunc(out, Slice.Empty) {
					t.Errorf("%x after %x: %x has an empty slice", in, last, out)
				}
			}
		}
	}
}

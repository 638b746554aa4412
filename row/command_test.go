package row

import (
	"bytes"
	"math/rand/v2"
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

// TestInSlices compares InSlices with a comparison with each slice.
func TestInSlices(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() []byte {
		b := make([]byte, rng.IntN(3))
		for i := range b {
			b[i] = byte(rng.IntN(6))
		}
		return b
	}
	for range 20_000 {
		var bounds [][]byte
		for range rng.IntN(40) {
			bounds = append(bounds, draw())
		}
		slices.SortFunc(bounds, bytes.Compare)
		bounds = slices.CompactFunc(bounds, bytes.Equal)
		var list []Slice
		for i := 0; i < len(bounds); i += 1 + rng.IntN(2) {
			switch {
			case i+1 == len(bounds):
				list = append(list, Slice{Start: bounds[i]})
			case rng.IntN(3) == 0:
				list = append(list, ExactRow(bounds[i]))
			default:
				list = append(list, Slice{bounds[i], bounds[i+1]})
			}
		}
		c := draw()
		want := slices.ContainsFunc(list, func(s Slice) bool { return s.Contains(c) })
		if got := InSlices(list, c); got != want {
			t.Fatalf("%v in %v: %v, want %v", c, list, got, want)
		}
	}
}

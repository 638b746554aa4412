package bounds

import (
	"bytes"
	"slices"

	"cqld/internal/invariant"
	"cqld/row"
)

// Shadowed returns an interval around a clustering in which range tombstones shadow all rows. The tombstones are
// normalized, and covers reports whether no row is newer than a deletion. ok means that there is such an interval.
func Shadowed(tombstones []row.RangeTombstone, clustering []byte, covers func(row.Deletion) bool) (start, end []byte,
	ok bool) {
	after, _ := slices.BinarySearchFunc(tombstones, clustering, func(t row.RangeTombstone, c []byte) int {
		if bytes.Compare(t.Start, c) <= 0 {
			return -1
		}
		return 1
	})
	shadows := func(i int) bool {
		return i >= 0 && i < len(tombstones) && covers(tombstones[i].Deletion)
	}
	adjacent := func(i int) bool { return bytes.Equal(tombstones[i].End, tombstones[i+1].Start) }
	first, last := after-1, after-1
	if !shadows(first) || bytes.Compare(tombstones[first].End, clustering) <= 0 {
		return nil, nil, false
	}
	for shadows(first-1) && adjacent(first-1) {
		first--
	}
	for shadows(last+1) && adjacent(last) {
		last++
	}
	start, end = tombstones[first].Start, tombstones[last].End
	// A read skips the rest of the interval that starts before its current row, so an interval elsewhere would skip
	// live rows.
	invariant.Check(bytes.Compare(start, clustering) <= 0 && bytes.Compare(clustering, end) < 0,
		"bounds: the shadowed interval does not contain the row that it was asked for")
	return start, end, true
}

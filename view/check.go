package view

import (
	"bytes"

	"cqld/internal/invariant"
	"cqld/row"
)

// Invariants of reads of views:
//
//  1. The rows of a page are in the order of the view, and none is there twice.
//  2. The bytes of rows that were removed are the bytes that they were counted with.
//  3. No partition has more rows than the command wants of each.
//  4. A page that ends at a position has no row after it: the next page begins there.
//  5. A request has one answer. A search moves on with each answer.
//  6. The intervals of a search are disjoint and in the order of terms.
//  7. The length of a partition key fits into a term.

// check checks invariants 1 to 3 after a change of row at. checkAll runs in builds with invariants only, because it
// looks at every row for each row that is added.
func (k *kept) check(at int) {
	// Only the neighbors of the changed row, because this runs for each row.
	invariant.Check(k.bytes >= 0, "view: more bytes were removed from a page than added")
	for i := max(at, 1); i <= at+1 && i < len(k.rows); i++ {
		invariant.Check(k.compare(&k.rows[i-1], &k.rows[i]) < 0, "view: rows are not in the order of the view")
	}
	if invariant.Enabled {
		k.checkAll()
	}
}

// checkAll checks invariants 1 to 3 of all rows.
func (k *kept) checkAll() {
	sum, same := 0, 0 // same counts the rows of the present partition
	for i := range k.rows {
		x := &k.rows[i]
		sum += x.size()
		if same++; i == 0 || k.rows[i-1].key.Compare(x.key) != 0 {
			same = 1
		}
		invariant.Check(k.perPartition <= 0 || same <= k.perPartition, "view: a partition has too many rows")
		invariant.Check(i == 0 || k.compare(&k.rows[i-1], x) < 0, "view: rows are not in the order of the view")
	}
	invariant.Check(sum == k.bytes, "view: the bytes of the rows do not add up")
}

// checkEnd checks invariant 4.
func (k *kept) checkEnd(p *row.Position) {
	if n := len(k.rows); n > 0 {
		end := keptRow{key: p.Key, clustering: p.Clustering}
		invariant.Check(k.compare(&k.rows[n-1], &end) <= 0, "view: a page ends before its last row")
	}
}

// checkPlaces checks invariant 6.
func checkPlaces(places []row.Slice) {
	for i := range places {
		// A nil end is the end of the index.
		invariant.Check(places[i].End == nil || bytes.Compare(places[i].Start, places[i].End) < 0,
			"view: an interval is empty")
		if i > 0 {
			last := places[i-1].End
			invariant.Check(last != nil && bytes.Compare(last, places[i].Start) <= 0, "view: intervals overlap")
		}
	}
}

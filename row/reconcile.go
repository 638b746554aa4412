package row

import (
	"bytes"

	"cqld/internal/invariant"
)

// ReconcileCells returns the winning version of two versions of one cell, as Cassandra 5 does (CASSANDRA-14592). In
// this order: the later timestamp; a deleted or expiring cell over one that is neither; a tombstone over an expiring
// cell; the later expiry or deletion; the greater value. It is commutative, associative and idempotent. All code uses
// it to compare versions of cells.
func ReconcileCells(a, b *Cell) *Cell {
	if a.Timestamp != b.Timestamp {
		return pick(a, b, a.Timestamp > b.Timestamp)
	}
	// An expiring cell wins like a tombstone, because it becomes one: the result must not depend on the time of the
	// merge.
	aEnds, bEnds := a.Tombstone || a.TTL > 0, b.Tombstone || b.TTL > 0
	switch {
	case aEnds != bEnds:
		return pick(a, b, aEnds)
	case a.Tombstone != b.Tombstone:
		return pick(a, b, a.Tombstone)
	case aEnds && a.LocalTime != b.LocalTime:
		return pick(a, b, a.LocalTime > b.LocalTime)
	}
	if c := bytes.Compare(a.Value, b.Value); c != 0 {
		return pick(a, b, c > 0)
	}
	// Both cells are equal for readers. Compare TTLs, so that the result does not depend on the order of the
	// operands.
	return pick(a, b, a.TTL >= b.TTL)
}

// pick returns a if first is set, otherwise b.
func pick(a, b *Cell, first bool) *Cell {
	if first {
		return a
	}
	return b
}

// reconcileLiveness is ReconcileCells for row markers.
func reconcileLiveness(a, b Liveness) Liveness {
	switch {
	case a.Timestamp != b.Timestamp:
		if a.Timestamp > b.Timestamp {
			return a
		}
		return b
	// As with cells, an expiring marker wins over a permanent one.
	case (a.TTL > 0) != (b.TTL > 0):
		if a.TTL > 0 {
			return a
		}
		return b
	// Both expire, or neither does.
	case a.LocalTime != b.LocalTime:
		if a.LocalTime > b.LocalTime {
			return a
		}
		return b
	case a.TTL >= b.TTL:
		return a
	}
	return b
}

// Reconcile sets dst to the merge of a and b: the winner of each cell, without the cells that the merged deletions
// delete. dst must be neither a nor b; its slices are reused and will point to the same values as theirs. The result is
// canonical: equal content has an equal encoding.
func Reconcile(dst, a, b *Row) {
	// Reconcile reads the inputs while it writes dst.
	invariant.Check(dst != a && dst != b, "row: a row is reconciled into itself")
	dst.Reset()
	dst.Clustering = a.Clustering
	dst.HasRangeTombstones = a.HasRangeTombstones || b.HasRangeTombstones
	// Merge deletions first, because they determine which markers and cells remain.
	dst.Deletion = a.Deletion.Max(b.Deletion)
	dst.Liveness = reconcileLiveness(a.Liveness, b.Liveness)
	if dst.Deletion.Deletes(dst.Liveness.Timestamp) {
		dst.Liveness = NoLiveness()
	}
	// Complex deletions determine which cells remain.
	reconcileComplex(dst, a.Complex, b.Complex)
	reconcileRowCells(dst, a.Cells, b.Cells)
	if invariant.Enabled {
		checkCanonical(dst)
	}
}

// checkCanonical checks that the parts of a row are sorted, unique, and not deleted by its own deletions. Digests of
// replicas are equal only for canonical rows.
func checkCanonical(r *Row) {
	invariant.Check(!r.Liveness.Present() || !r.Deletion.Deletes(r.Liveness.Timestamp), "row: liveness is deleted")
	for i := 1; i < len(r.Complex); i++ {
		invariant.Check(r.Complex[i-1].Column < r.Complex[i].Column, "row: deletions of collections are not in order")
	}
	for i := range r.Cells {
		invariant.Check(i == 0 || r.Cells[i-1].compareID(&r.Cells[i]) < 0, "row: cells are not in order")
		invariant.Check(!r.Deletion.Deletes(r.Cells[i].Timestamp), "row: a cell is deleted by its row")
	}
}

// inOrder reports whether the cells, the deletions of collections and the runs of a row ascend, once each.
func (r *Row) inOrder() bool {
	for i := 1; i < len(r.Cells); i++ {
		if r.Cells[i-1].compareID(&r.Cells[i]) >= 0 {
			return false
		}
	}
	for i := 1; i < len(r.Complex); i++ {
		if r.Complex[i-1].Column >= r.Complex[i].Column {
			return false
		}
	}
	// Cells inside a run stay encoded. Readers of runs do not reconcile them.
	for i := 1; i < len(r.Runs); i++ {
		if r.Runs[i-1].Column >= r.Runs[i].Column {
			return false
		}
	}
	return true
}

// reconcileComplex merges two lists, each in the order of columns. dst.Deletion is set.
func reconcileComplex(dst *Row, a, b []ComplexDeletion) {
	keep := func(c ComplexDeletion) {
		// A deletion that the deletion of the row covers has no effect.
		if !dst.Deletion.Deletes(c.Timestamp) {
			dst.Complex = append(dst.Complex, c)
		}
	}
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].Column < b[0].Column:
			keep(a[0])
			a = a[1:]
		case a[0].Column > b[0].Column:
			keep(b[0])
			b = b[1:]
		default:
			keep(ComplexDeletion{a[0].Column, a[0].Deletion.Max(b[0].Deletion)})
			a, b = a[1:], b[1:]
		}
	}
	for _, c := range a {
		keep(c)
	}
	for _, c := range b {
		keep(c)
	}
}

// reconcileRowCells merges two lists of cells, each in order, without what the deletions in dst delete.
func reconcileRowCells(dst *Row, a, b []Cell) {
	// Both lists ascend by column, so each deletion is visited once.
	complexes := dst.Complex
	keep := func(c *Cell) {
		if dst.Deletion.Deletes(c.Timestamp) {
			return
		}
		for len(complexes) > 0 && complexes[0].Column < c.Column {
			complexes = complexes[1:]
		}
		if len(complexes) > 0 && complexes[0].Column == c.Column && complexes[0].Deletes(c.Timestamp) {
			return
		}
		dst.Cells = append(dst.Cells, *c)
	}
	for len(a) > 0 && len(b) > 0 {
		switch d := a[0].compareID(&b[0]); {
		case d < 0:
			keep(&a[0])
			a = a[1:]
		case d > 0:
			keep(&b[0])
			b = b[1:]
		default:
			// The winner is chosen before deletions apply. A cell that loses is not newer, so it would not survive a
			// deletion that the winner does not survive.
			keep(ReconcileCells(&a[0], &b[0]))
			a, b = a[1:], b[1:]
		}
	}
	for i := range a {
		keep(&a[i])
	}
	for i := range b {
		keep(&b[i])
	}
}

// Covers reports whether merging b into a changes nothing: for each part of b, a has one that wins over it. Its result
// is the same as Reconcile's, without building the merge. Both rows must be canonical.
func Covers(a, b *Row) bool {
	if b.HasRangeTombstones && !a.HasRangeTombstones ||
		a.Deletion.Max(b.Deletion) != a.Deletion || reconcileLiveness(a.Liveness, b.Liveness) != a.Liveness {
		return false
	}
	// Both lists ascend, so one pass over each is enough.
	complexes := a.Complex
	for _, c := range b.Complex {
		for len(complexes) > 0 && complexes[0].Column < c.Column {
			complexes = complexes[1:]
		}
		if len(complexes) == 0 || complexes[0].Column != c.Column ||
			complexes[0].Max(c.Deletion) != complexes[0].Deletion {
			return false
		}
	}
	cells := a.Cells
	for i := range b.Cells {
		for len(cells) > 0 && cells[0].compareID(&b.Cells[i]) < 0 {
			cells = cells[1:]
		}
		if len(cells) == 0 || cells[0].compareID(&b.Cells[i]) != 0 ||
			// For equal cells, ReconcileCells returns the first argument, so a covers a copy of itself.
			ReconcileCells(&cells[0], &b.Cells[i]) != &cells[0] {
			return false
		}
	}
	return true
}

// Shadow removes from r everything that d, a deletion of a wider scope, deletes, and r's own deletion if d covers it.
// The slices of r are filtered in place.
func (r *Row) Shadow(d Deletion) {
	if !d.Present() {
		return
	}
	if d.Deletes(r.Liveness.Timestamp) {
		r.Liveness = NoLiveness()
	}
	// With an equal timestamp, d has a wider scope and replaces the row's deletion.
	if d.Deletes(r.Deletion.Timestamp) {
		r.Deletion = NoDeletion()
	}
	complexes := r.Complex[:0]
	for _, c := range r.Complex {
		if !d.Deletes(c.Timestamp) {
			complexes = append(complexes, c)
		}
	}
	r.Complex = complexes
	cells := r.Cells[:0]
	for i := range r.Cells {
		if !d.Deletes(r.Cells[i].Timestamp) {
			cells = append(cells, r.Cells[i])
		}
	}
	r.Cells = cells
}

// Purge removes data that no replica needs: tombstones made before gcBefore (seconds), and cells and markers that
// expired before it. Reads purge, too, so that replicas return the same result whether or not the purger has processed
// them. Data that deletions shadow must be removed first (Shadow), or it would appear again when its tombstone is
// purged.
func (r *Row) Purge(gcBefore int64) {
	if r.Liveness.Present() && r.Liveness.TTL > 0 && r.Liveness.LocalTime < gcBefore {
		r.Liveness = NoLiveness()
	}
	if r.Deletion.Present() && r.Deletion.LocalTime < gcBefore {
		r.Deletion = NoDeletion()
	}
	complexes := r.Complex[:0]
	for _, c := range r.Complex {
		// Keep the deletion of a column as long as the deletion of a row.
		if c.LocalTime >= gcBefore {
			complexes = append(complexes, c)
		}
	}
	r.Complex = complexes
	cells := r.Cells[:0]
	for i := range r.Cells {
		// Keep an expired cell for gc_grace like a tombstone, because it shadows older versions.
		if c := &r.Cells[i]; (c.Tombstone || c.TTL > 0) && c.LocalTime < gcBefore {
			continue
		}
		cells = append(cells, r.Cells[i])
	}
	r.Cells = cells
}

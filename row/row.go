package row

import "slices"

// Row contains the versions of one row's cells, with its deletions. Its slices may point into the bytes from which it
// was decoded. A decoded row is valid as long as those bytes. Reset prepares a Row for reuse and keeps only the
// capacity of its slices.
type Row struct {
	Clustering []byte // not part of the encoding; nil for headers
	Liveness   Liveness
	Deletion   Deletion
	Complex    []ComplexDeletion // sorted by column
	Cells      []Cell            // sorted by column, then path
	Runs       []Run             // multi-cell columns after DecodeRuns, which are then not in Cells
	// HasRangeTombstones is set in a header if the partition has, or had, range tombstones.
	HasRangeTombstones bool
}

// NewRow returns an empty row.
func NewRow() *Row {
	r := new(Row)
	r.Reset()
	return r
}

// Reset empties r and keeps its memory.
func (r *Row) Reset() {
	*r = Row{Liveness: NoLiveness(), Deletion: NoDeletion(), Complex: r.Complex[:0], Cells: r.Cells[:0],
		Runs: r.Runs[:0]}
}

// Empty reports whether r contains nothing.
func (r *Row) Empty() bool {
	return !r.Liveness.Present() && !r.Deletion.Present() && len(r.Complex) == 0 && len(r.Cells) == 0 &&
		len(r.Runs) == 0 && !r.HasRangeTombstones
}

// Live reports whether the row exists for a reader at now: it was inserted, or has a live cell. now is in seconds.
// Static rows, which have no marker, are live by their cells.
func (r *Row) Live(now int64) bool {
	if r.Liveness.Live(now) {
		return true
	}
	// Without a marker the row exists as long as it has a live cell.
	for i := range r.Cells {
		if r.Cells[i].Live(now) {
			return true
		}
	}
	return false
}

// Sort sorts the cells and complex deletions. Builders that append out of order call it once before encoding. Of two
// cells with the same identity it keeps the winner.
func (r *Row) Sort() {
	slices.SortStableFunc(r.Complex, func(a, b ComplexDeletion) int { return int(a.Column) - int(b.Column) })
	// Most builders append in order.
	sorted := slices.IsSortedFunc(r.Cells, func(a, b Cell) int { return a.compareID(&b) })
	if !sorted {
		slices.SortStableFunc(r.Cells, func(a, b Cell) int { return a.compareID(&b) })
	}
	// Filter in place; kept never overtakes the loop.
	kept := r.Cells[:0]
	for i := range r.Cells {
		if n := len(kept); n > 0 && kept[n-1].compareID(&r.Cells[i]) == 0 {
			// If a statement writes a cell twice, reconcile both like two separate writes; the later one does not
			// automatically win.
			if ReconcileCells(&r.Cells[i], &kept[n-1]) == &r.Cells[i] {
				kept[n-1] = r.Cells[i]
			}
			continue
		}
		kept = append(kept, r.Cells[i])
	}
	r.Cells = kept
}

// Clone returns a deep copy that shares no memory with r.
func (r *Row) Clone() Row {
	c := *r
	c.Clustering = slices.Clone(r.Clustering)
	c.Complex = slices.Clone(r.Complex)
	c.Cells = slices.Clone(r.Cells)
	for i := range c.Cells {
		// Clone of nil is nil: an absent path stays absent.
		c.Cells[i].Path = slices.Clone(c.Cells[i].Path)
		c.Cells[i].Value = slices.Clone(c.Cells[i].Value)
	}
	c.Runs = slices.Clone(r.Runs)
	for i := range c.Runs {
		c.Runs[i] = r.Runs[i].Clone()
	}
	return c
}

// ComplexDeletionOf returns the deletion of the multi-cell column of c. It is NoDeletion if the column has none.
func (r *Row) ComplexDeletionOf(c *Cell) Deletion {
	for i := range r.Complex {
		// The list is short: most rows have none.
		if r.Complex[i].Column == c.Column {
			return r.Complex[i].Deletion
		}
	}
	return NoDeletion()
}

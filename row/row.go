package row

import "slices"

// Row is the versions of one row's cells, with its deletions. Its slices may point into the bytes
// it was decoded from; a Row is reused by Reset and then owns its slices' capacity only.
type Row struct {
	Clustering []byte // not part of the encoded value; nil for headers
	Liveness   Liveness
	Deletion   Deletion
	Complex    []ComplexDeletion // by column
	Cells      []Cell            // by column, then path
	// HasRangeTombstones is set in a header when the partition has, or had, range tombstones.
	HasRangeTombstones bool
}

// NewRow is an empty row.
func NewRow() *Row {
	r := new(Row)
	r.Reset()
	return r
}

// Reset empties r and keeps its memory.
func (r *Row) Reset() {
	*r = Row{Liveness: NoLiveness(), Deletion: NoDeletion(), Complex: r.Complex[:0], Cells: r.Cells[:0]}
}

// Empty says whether r says nothing at all.
func (r *Row) Empty() bool {
	return !r.Liveness.Present() && !r.Deletion.Present() && len(r.Complex) == 0 && len(r.Cells) == 0 &&
		!r.HasRangeTombstones
}

// Live says whether the row exists for a reader at now: it was inserted, or it has a live cell.
func (r *Row) Live(now int64) bool {
	if r.Liveness.Live(now) {
		return true
	}
	for i := range r.Cells {
		if r.Cells[i].Live(now) {
			return true
		}
	}
	return false
}

// Sort puts the cells and complex deletions in order. Builders that append out of order call it
// once before encoding; of two cells with one identity the winner is kept.
func (r *Row) Sort() {
	slices.SortStableFunc(r.Complex, func(a, b ComplexDeletion) int { return int(a.Column) - int(b.Column) })
	sorted := slices.IsSortedFunc(r.Cells, func(a, b Cell) int { return a.compareID(&b) })
	if !sorted {
		slices.SortStableFunc(r.Cells, func(a, b Cell) int { return a.compareID(&b) })
	}
	kept := r.Cells[:0]
	for i := range r.Cells {
		if n := len(kept); n > 0 && kept[n-1].compareID(&r.Cells[i]) == 0 {
			if ReconcileCells(&r.Cells[i], &kept[n-1]) == &r.Cells[i] {
				kept[n-1] = r.Cells[i]
			}
			continue
		}
		kept = append(kept, r.Cells[i])
	}
	r.Cells = kept
}

// Clone is a deep copy that shares no memory with r.
func (r *Row) Clone() Row {
	c := *r
	c.Clustering = slices.Clone(r.Clustering)
	c.Complex = slices.Clone(r.Complex)
	c.Cells = slices.Clone(r.Cells)
	for i := range c.Cells {
		c.Cells[i].Path = slices.Clone(c.Cells[i].Path)
		c.Cells[i].Value = slices.Clone(c.Cells[i].Value)
	}
	return c
}

// ComplexDeletionOf is the deletion of one multi-cell column.
func (r *Row) ComplexDeletionOf(c *Cell) Deletion {
	for i := range r.Complex {
		if r.Complex[i].Column == c.Column {
			return r.Complex[i].Deletion
		}
	}
	return NoDeletion()
}

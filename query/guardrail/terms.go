package guardrail

import (
	"slices"

	"cqld/row"
	"cqld/schema"
	"cqld/types"
	"cqld/types/analysis"
)

// BoundsTerms reports whether a guardrail bounds the terms of an index of t. Statements on other tables need not call
// Terms. g may be nil.
func (g *Guardrails) BoundsTerms(t *schema.Table) bool {
	return g != nil && slices.ContainsFunc(t.Indexes(), func(x *schema.Index) bool {
		bound := termBound(t, x)
		// Other classes of indexes have no guardrails on terms.
		return x.Class == schema.SAI && (g.Warn[bound] > 0 || g.Fail[bound] > 0)
	})
}

// termBound returns the guardrail that bounds the terms of an index. Vectors have their own bound, and so do frozen
// collections, tuples and user-defined types. All other types have the bound of strings.
func termBound(t *schema.Table, x *schema.Index) Threshold {
	c := t.ColumnByID(x.Column)
	switch {
	case c == nil:
	case c.Type.Kind() == types.Vector:
		return SAIVectorTermSize
	case len(c.Type.Elems()) > 0 && !c.Type.MultiCell():
		return SAIFrozenTermSize
	}
	return SAIStringTermSize
}

// Terms applies the guardrails on terms of storage-attached indexes to a row that is written. kind is schema.Static
// for a static row. now, in seconds since 1970, determines which cells have expired. key is the partition key in wire
// form. Only storage-attached indexes have such guardrails. The error is *invalid.Error.
func (g *Guard) Terms(t *schema.Table, key []byte, kind schema.ColumnKind, r *row.Row, now int64) error {
	if g == nil {
		return nil
	}
	for _, x := range t.Indexes() {
		c := t.ColumnByID(x.Column)
		if x.Class != schema.SAI || c == nil || (c.Kind == schema.Static) != (kind == schema.Static) {
			continue
		}
		// A static row has terms in indexes on static columns only, and other rows in the other indexes.
		w := termGuard{Guard: g, bound: termBound(t, x), column: c, target: x.Target,
			analyzer: analysis.Of(x.Class.String(), x.Options)}
		if err := w.row(t, key, r, now); err != nil {
			return err
		}
	}
	return nil
}

// termGuard is a Guard of the terms of one index.
type termGuard struct {
	*Guard
	bound    Threshold
	column   *schema.Column
	target   schema.IndexTarget
	analyzer *analysis.Analyzer // nil means that a value is a single term
}

// row applies the guardrail to the terms that a row adds to the index. Tombstones and expired cells add none.
func (g *termGuard) row(t *schema.Table, key []byte, r *row.Row, now int64) error {
	switch g.column.Kind {
	// All rows of a partition have the same key.
	case schema.PartitionKey:
		return g.value(row.KeyComponents(nil, key, len(t.PartitionKey))[g.column.Position])
	case schema.Clustering:
		return g.clustering(t, r.Clustering)
	}
	// A collection has a cell for each element.
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Column == g.column.ID && c.Live(now) {
			if err := g.cell(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// clustering applies the guardrail to the value of a clustering column. It decodes all columns before it, because the
// encoding has no offsets.
func (g *termGuard) clustering(t *schema.Table, clustering []byte) (err error) {
	for _, c := range t.Clustering {
		var v []byte
		if v, clustering, err = c.Type.ConsumeOrdered(nil, clustering, c.Desc); err != nil || c == g.column {
			return g.value(v) // missing columns count as empty
		}
	}
	return nil
}

// cell applies the guardrail to the term of a cell: an element, a key, an entry or a value.
func (g *termGuard) cell(c *row.Cell) error {
	kind := g.column.Type.Kind()
	// The elements of a set and the keys of a map are in the path of the cell, the values of a map and the elements of
	// a list in its value.
	ofPath := kind == types.Set || kind == types.Map && g.target != schema.IndexValues
	if !g.column.Type.Kind().IsCollection() || !g.column.Type.MultiCell() || !ofPath {
		return g.value(c.Value)
	}
	path, _, err := g.column.Type.Elems()[0].ConsumeOrdered(nil, c.Path, false)
	if err != nil {
		return nil // query/write encoded the path from a valid value
	}
	if g.target == schema.IndexEntries {
		return g.size(int64(len(path) + len(c.Value) + schema.IndexEntryBytes))
	}
	return g.value(path)
}

// value applies the guardrail to the terms of a value. An analyzer splits a value into several terms, and the
// guardrail applies to each.
func (g *termGuard) value(v []byte) error {
	// If the whole value is within both bounds, its terms are, too, and the expensive analysis is skipped.
	if g.analyzer == nil || !g.bound.beyond(int64(len(v)), g.Warn[g.bound]) &&
		!g.bound.beyond(int64(len(v)), g.Fail[g.bound]) {
		return g.size(int64(len(v)))
	}
	for _, term := range g.analyzer.Terms(v) {
		if err := g.size(int64(len(term))); err != nil {
			return err
		}
	}
	return nil
}

// size applies the guardrail to the size of a term in bytes.
func (g *termGuard) size(n int64) error { return g.Within(g.bound, n, g.column.Name) }

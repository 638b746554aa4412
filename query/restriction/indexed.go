package restriction

import (
	"slices"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
)

// OrderBy adds ORDER BY col ANN OF, in AfterRelations. indexed reports whether an index finds the nearest vectors.
// Cassandra treats it as a restriction of the column, if that is not in the primary key, which cannot be restricted by
// relations, too. It is called while the Set is built, once.
func (rs *Set) OrderBy(col *schema.Column, indexed bool) error {
	// An index on the vector lets other relations be less restricted, see findsVector.
	rs.nearest, rs.findsVector = col, rs.findsVector || indexed
	for _, r := range rs.other {
		if r.first() == col {
			// kindLike is never merged, so merge returns the error for the kind of r.
			return r.merge(&restriction{columns: r.columns, kind: kindLike})
		}
	}
	return nil
}

// CheckNearest refuses restrictions that ORDER BY … ANN OF cannot be combined with, in BeforeOthers. Clustering columns
// need no index if they select a slice of partitions. It must run after the restrictions of the clustering are checked,
// as it uses what they added to the filters. The search for nearest vectors finds a fixed number of rows, so a filter
// after it could leave too few.
func (rs *Set) CheckNearest() error {
	refused := rs.keyFiltered
	indexed := func(col *schema.Column) bool {
		return slices.ContainsFunc(rs.table.Indexes(), func(ix *schema.Index) bool { return ix.Column == col.ID })
	}
	// The clustering restrictions that are not filters are slices, which cost nothing to apply.
	sliced := (rs.token != nil || !rs.KeyRange) && !slices.ContainsFunc(rs.clustering,
		func(r *restriction) bool { return slices.Contains(rs.filters, r) })
	for _, r := range slices.Concat(rs.other, rs.extra, rs.clustering) {
		for _, col := range r.columns {
			refused = refused || !indexed(col) && (col.Kind != schema.Clustering || r.kind >= kindNotIn || !sliced)
		}
	}
	if refused {
		return invalid.Errorf("ANN ordering by vector requires all restricted column(s) to be indexed")
	}
	return nil
}

// CheckNearestFiltering refuses ORDER BY … ANN OF without ALLOW FILTERING, unless storage-attached indexes find all
// restrictions. Legacy and SASI indexes do not count, unlike in CheckFiltering.
func (rs *Set) CheckNearestFiltering(allowed bool) error {
	for _, r := range slices.Concat(rs.expected, rs.extra) {
		for _, col := range r.columns {
			if !allowed && !slices.ContainsFunc(rs.table.Indexes(), func(ix *schema.Index) bool {
				return ix.Column == col.ID && ix.Class == schema.SAI && r.servedBy(ix)
			}) {
				return rs.NeedsFiltering()
			}
		}
	}
	return nil
}

// Intersects reports whether rows are filtered, by Cassandra's rules, by several columns that can change: by two that
// are not of the primary key, or by a static one and any other relation. A guardrail uses it (read.guardIntersection):
// replicas may have different versions of the columns, and none of them all values that match.
func (rs *Set) Intersects() bool {
	relations, static := 0, false
	var mutable []*schema.Column
	for _, r := range rs.filters {
		// A relation is a comparison that the client wrote; a restriction may combine two bounds or several elements.
		relations += max(len(r.columns), len(r.elements))
		if r.kind == kindSlice && r.lower != nil && r.upper != nil {
			relations += len(r.columns)
		}
		for _, c := range r.columns {
			static = static || c.Kind == schema.Static
			if (c.Kind == schema.Static || c.Kind == schema.Regular) && !slices.Contains(mutable, c) {
				mutable = append(mutable, c)
			}
		}
	}
	// Filters that Cassandra needs not apply have no part in it.
	return (len(mutable) > 1 || static && relations > 1) && rs.needsFiltering()
}

// servedBy reports whether an index on a column of r finds the values that r restricts it to. It is like findsWhole and
// findsElement, but for the whole restriction: each element must be found.
func (r *restriction) servedBy(ix *schema.Index) bool {
	single := ix.Target == schema.IndexSimple || ix.Target == schema.IndexFull
	switch r.kind {
	case kindEqual:
		return single
	case kindSlice:
		return single && !slices.Contains([]types.Kind{types.Text, types.Ascii, types.Boolean}, r.first().Type.Kind())
	case kindContains:
		return !slices.ContainsFunc(r.elements, func(e element) bool {
			switch {
			case e.operator == cql.Contains:
				return ix.Target != schema.IndexValues
			case e.operator == cql.ContainsKey:
				return ix.Target != schema.IndexKeys
			}
			return ix.Target != schema.IndexEntries
		})
	}
	return false
}

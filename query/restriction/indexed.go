package restriction

import (
	"slices"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
)

// OrderBy adds ORDER BY col ANN OF, in AfterRelations. indexed reports whether an index finds the nearest vectors. As
// in Cassandra, it counts as a restriction of the column, unless that is in the primary key, so relations cannot
// restrict the same column. It is called at most once, while the Set is built.
func (rs *Set) OrderBy(col *schema.Column, indexed bool) error {
	// An index on the vector relaxes the rules for other relations (see findsVector).
	rs.nearest, rs.findsVector = col, rs.findsVector || indexed
	for _, r := range rs.other {
		if r.first() == col {
			// kindLike is never merged, so merge returns the error for the kind of r.
			return r.merge(&restriction{columns: r.columns, kind: kindLike})
		}
	}
	return nil
}

// CheckNearest rejects restrictions that cannot be combined with ORDER BY … ANN OF. A search for nearest vectors
// finds a fixed number of rows, so a filter afterwards could leave too few. Clustering columns need no index if they
// select a slice of partitions. Callers call it from BeforeOthers, because it uses the filters that the checks of the
// clustering have added.
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
// are not of the primary key, or by a static one and any other relation. The guardrail read.guardIntersection uses
// it: replicas may have different versions of the columns, and no single replica may have all matching values.
func (rs *Set) Intersects() bool {
	relations, static := 0, false
	var mutable []*schema.Column
	for _, r := range rs.filters {
		// Count relations as the client wrote them; a restriction may combine several elements.
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
	// It does not matter if Cassandra needs no filter.
	return (len(mutable) > 1 || static && relations > 1) && rs.needsFiltering()
}

// servedBy reports whether an index on a column of r finds the values that r restricts it to. Unlike findsWhole and
// findsElement, it considers the whole restriction: the index must find each element.
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

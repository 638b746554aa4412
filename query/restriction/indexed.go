package restriction

import (
	"slices"

	"cqld/cql"
	"cqld/schema"
	"cqld/types"
)

// Indexed reports how indexes serve the relations that do not name rows by their keys: whether all of the columns have an index,
// and whether storage-attached ones serve all of the relations.
func (rs *Set) Indexed() (columns, relations bool) {
	columns, relations = true, true
	list := rs.filters
	if rs.KeyRange {
		list = slices.Concat(list, rs.clustering)
	}
	for _, r := range list {
		for _, col := range r.columns {
			has, serves := false, false
			for _, ix := range rs.table.Indexes() {
				if ix.Column == col.ID {
					has, serves = true, serves || ix.Class == schema.SAI && r.servedBy(ix)
				}
			}
			columns, relations = columns && has, relations && serves
		}
	}
	return columns, relations
}

// Intersects reports whether rows are filtered, by Cassandra's rules, by several columns that can change: by two that are not of the
// primary key, or by a static one and any other relation.
func (rs *Set) Intersects() bool {
	relations, static := 0, false
	var mutable []*schema.Column
	for _, r := range rs.filters {
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
	return (len(mutable) > 1 || static && relations > 1) && rs.needsFiltering()
}

// servedBy reports whether an index on a column of r finds the values that r restricts it to.
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

// OrderConflict returns the error for ORDER BY col ANN OF, if col is also restricted.
func (rs *Set) OrderConflict(col *schema.Column) error {
	for _, r := range slices.Concat(rs.clustering, rs.other) {
		if slices.Contains(r.columns, col) && r.kind == kindSlice {
			return r.merge(&restriction{columns: r.columns, kind: kindLike})
		}
	}
	return invalidf("%s cannot be restricted by more than one relation if it includes an Equal", col.Name)
}

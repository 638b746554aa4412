package restriction

import (
	"slices"

	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
)

// Columns returns the columns that WHERE restricts. A column may occur several times. The caller owns the result.
// Permissions and masks depend on it.
func (rs *Set) Columns() []*schema.Column {
	var out []*schema.Column
	add := func(list ...*restriction) {
		for _, r := range list {
			if r != nil {
				out = append(out, r.columns...)
			}
		}
	}
	add(rs.token)
	add(rs.partition...)
	add(rs.clustering...)
	add(rs.other...)
	add(rs.extra...)
	add(rs.filters...)
	return out
}

// HasFilters reports whether rows must be filtered. It includes filters on rows that an index finds.
func (rs *Set) HasFilters() bool { return len(rs.filters) > 0 }

// FilterColumns returns the columns of each restriction by which rows are filtered. EXPLAIN shows them. The inner
// slices belong to the Set.
func (rs *Set) FilterColumns() [][]*schema.Column {
	out := make([][]*schema.Column, len(rs.filters))
	for i, r := range rs.filters {
		out[i] = r.columns
	}
	return out
}

// HasToken reports whether WHERE restricts the token of the partition key.
func (rs *Set) HasToken() bool { return rs.token != nil }

// HasClustering reports whether WHERE restricts clustering columns. A clustering column in an exclusion or in an OR
// does not count.
func (rs *Set) HasClustering() bool { return len(rs.clustering) > 0 }

// HasRegular reports whether WHERE restricts regular columns. Static columns do not count: a restriction of one selects
// partitions and not rows.
func (rs *Set) HasRegular() bool {
	return slices.ContainsFunc(rs.other, func(r *restriction) bool { return r.first().Kind == schema.Regular })
}

// FiltersRows reports whether NOT IN, LIKE, OR or another restriction in extra restricts clustering or regular
// columns, which SELECT DISTINCT rejects.
func (rs *Set) FiltersRows() bool {
	return slices.ContainsFunc(rs.extra, func(r *restriction) bool {
		return r.restricts(schema.Clustering) || r.restricts(schema.Regular)
	})
}

// ClusteringIn reports whether a clustering column is restricted by IN. IN with one value counts as =.
func (rs *Set) ClusteringIn() bool {
	return slices.ContainsFunc(rs.clustering, func(r *restriction) bool { return r.kind == kindIn })
}

// WholeRows reports whether WHERE restricts all clustering columns by = or IN. It is also true for a table without
// clustering columns.
func (rs *Set) WholeRows() bool {
	return len(rs.missingClustering()) == 0 && !slices.ContainsFunc(rs.clustering,
		func(r *restriction) bool { return r.kind == kindSlice })
}

// Single reports whether WHERE selects one row, or one partition, by one term for each column. A write with a Single
// set builds its key without lists. Every partition key column must have = with one term; either all clustering
// columns do, or none is restricted.
func (rs *Set) Single() bool {
	for _, r := range rs.partition {
		if r == nil || r.kind != kindEqual {
			return false
		}
	}
	for i, r := range rs.clustering {
		// A tuple is one value for several columns.
		if r.kind != kindEqual || r.equal.marker != nil || len(r.columns) != 1 || r.first().Position != i {
			return false
		}
	}
	return len(rs.clustering) == 0 || len(rs.clustering) == len(rs.table.Clustering)
}

// SingleRow reports whether WHERE is exactly the complete key of one row. The read then needs no filters and one
// exact slice.
func (rs *Set) SingleRow() bool {
	return !rs.KeyRange && rs.token == nil && rs.Single() && len(rs.filters) == 0 &&
		len(rs.clustering) == len(rs.table.Clustering)
}

// OneKey reports whether WHERE selects one partition, by one value for each column of its key. SingleKey returns the
// key. Unlike Single, clustering columns may be restricted in any way.
func (rs *Set) OneKey() bool {
	return !rs.KeyRange && rs.token == nil && !slices.ContainsFunc(rs.partition, func(r *restriction) bool {
		return r == nil || r.kind != kindEqual || r.equal.marker != nil || r.equal.tuple || r.equal.bounds
	})
}

// SingleKey appends the partition key that a set with Single or OneKey selects to dst. It uses values as scratch
// memory and returns it, so a prepared read with a short key does not allocate. The result shares memory with dst,
// which the caller may use again after the request.
func (rs *Set) SingleKey(s *term.Scope, dst []byte, values [][]byte) (key []byte, _ [][]byte, err error) {
	values = values[:0]
	size := 0
	for _, r := range rs.partition {
		v, err := r.keyValue(s)
		if err != nil {
			return dst, values, err
		}
		values = append(values, v)
		// A composite has a length of two bytes before and one byte after each component.
		size += len(v) + 3
	}
	// Allocate at most once.
	dst = slices.Grow(dst, size)
	dst = row.AppendKeyComponents(dst, values)
	return dst, values, checkPartitionKey(dst, values)
}

// SingleClustering appends the clustering that a Single set selects to dst. The clustering is in the ordered form,
// complete, and without a bound on its length for reads.
func (rs *Set) SingleClustering(s *term.Scope, dst []byte) ([]byte, error) {
	length := 0
	for _, r := range rs.clustering {
		v, err := r.keyValue(s)
		if err != nil {
			return dst, err
		}
		if length += len(v); rs.writes && length > keyBytesMax {
			continue // continue to compute the total length for the error
		}
		dst = r.first().Type.AppendOrdered(dst, v, r.first().Desc)
	}
	if rs.writes {
		return dst, checkKeyLength(length)
	}
	return dst, nil
}

// keyValue evaluates the one term of a key column. Null and unset are refused, empty values are not.
func (r *restriction) keyValue(s *term.Scope) ([]byte, error) {
	v, err := r.equal.terms[0].Eval(s)
	if err != nil {
		return nil, err
	}
	switch v.Kind {
	case wire.ValueUnset:
		return nil, invalid.Errorf("Invalid unset value for column %s", r.first().Name)
	case wire.ValueNull:
		return nil, checkKeyValue(r.first(), nil)
	}
	return v.Bytes, checkKeyValue(r.first(), term.NotNil(v.Bytes))
}

// KeyValues returns the values of a key column in the rows that an INSERT or UPDATE selects. Constraints and masks of
// key columns use it. It does not reject null. It returns no values for an unrestricted column. The values share
// memory with the bound values.
func (rs *Set) KeyValues(s *term.Scope, col *schema.Column) (values [][]byte, err error) {
	for _, r := range slices.Concat(rs.partition, rs.clustering) {
		if r == nil {
			continue
		}
		at := slices.Index(r.columns, col)
		if at < 0 {
			continue
		}
		// Treat = as a list with one tuple.
		all := [][][]byte{nil}
		if r.kind == kindEqual {
			all[0], err = r.equal.eval(s, r.columns, nil)
		} else {
			all, err = r.evalKeys(s)
		}
		if err != nil {
			return nil, err
		}
		for _, v := range all {
			values = append(values, v[at])
		}
	}
	return values, nil
}

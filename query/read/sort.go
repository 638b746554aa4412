package read

import (
	"slices"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
)

// sortedOrder compiles an ORDER BY that is not the order of the clustering, or not of selected partitions: the rows are
// sorted in memory. It needs ALLOW FILTERING, no PER PARTITION LIMIT, and a LIMIT unless the partitions are selected.
// declared is the error of Cassandra, which refuses all of these. An index, partitions in a range of tokens, and any
// column are possible, since the order in which rows are read does not matter.
func (c *compiler) sortedOrder(p *Plan, stmt *cql.Select, columns []orderColumn, declared error) error {
	// What Cassandra refuses stays refused unless the client accepts the cost.
	if !stmt.AllowFiltering {
		return declared
	}
	switch {
	case p.distinct || p.aggregates() || stmt.PerPartitionLimit != nil:
		return declared // PER PARTITION LIMIT would count rows before they are sorted
	case p.where.KeyRange && stmt.Limit == nil:
		return invalid.Errorf("ORDER BY over all partitions needs a LIMIT of at most %d rows", sortRowsMax)
	}
	// The comparison is by type, so types without one are refused here and not at the first row.
	for _, o := range columns {
		// Values without an order of their own.
		if t := o.col.Type; t.MultiCell() || t.Kind() == types.Counter || t.Kind() == types.Duration {
			return invalid.Errorf("ORDER BY is not supported on column %s of type %s", o.col.Name, t)
		}
	}
	p.order, p.sorted, p.reversed = columns, true, false
	return nil
}

// sortedColumns returns the columns by which rows are sorted in memory. As with restricted columns, their real values
// show in the result: the distances of a vector from a few others determine it. The decision on masks needs them: a
// client that may not see a column must not learn its order.
func (p *Plan) sortedColumns() (all []*schema.Column) {
	if p.near != nil {
		all = append(all, p.near.col)
	}
	if p.sorted {
		for _, o := range p.order {
			all = append(all, o.col)
		}
	}
	return all
}

// compareSorted compares two rows by ORDER BY. Null is less than every value. Unlike compareOrdered, it ignores the
// order that the table declares: descending is relative to the values.
func (p *Plan) compareSorted(a, b orderedRow) int {
	for i, o := range p.order {
		n := 0
		switch x, y := a.keys[i], b.keys[i]; {
		case x == nil && y == nil:
		case x == nil:
			n = -1
		case y == nil:
			n = 1
		default:
			n = o.col.Type.Compare(x, y)
		}
		if o.descending {
			n = -n
		}
		if n != 0 {
			return n
		}
	}
	return 0
}

// checkSorted returns an error if LIMIT and OFFSET need more rows than are sorted in memory. LIMIT counts after the
// sort, so LIMIT and OFFSET rows must be in memory at once.
func (p *Plan) checkSorted(limit, offset uint32) error {
	if !p.sorted || limit == noLimit {
		return nil
	}
	// In 64 bits: both may be large.
	if n := uint64(limit) + uint64(offset); n > sortRowsMax {
		return invalid.Errorf("ORDER BY sorts at most %d rows in memory, but LIMIT and OFFSET select %d", sortRowsMax,
			n)
	}
	return nil
}

// bound keeps the rows that may be part of the result: the first ones, as many as LIMIT and OFFSET select. Each sort of
// twice as many rows removes half of them. Without a LIMIT, too many rows are an error. The amortized cost of a row is
// the logarithm of the number of kept rows.
func (o *orderedRows) bound(run *reading) error {
	if run.pageLimit == noLimit {
		if len(o.rows) > sortRowsMax {
			return invalid.Errorf("ORDER BY sorts at most %d rows in memory; add a LIMIT", sortRowsMax)
		}
		return nil
	}
	// The omitted rows of OFFSET must be found as well.
	keep := int(run.pageLimit + run.skip)
	if len(o.rows) < 2*keep && o.size <= pageBytesMax || len(o.rows) <= keep {
		return nil
	}
	// Stable, so that rows with equal keys stay in the order of the table.
	slices.SortStableFunc(o.rows, run.plan.compareSorted)
	for _, r := range o.rows[keep:] {
		o.size -= r.size()
	}
	// Otherwise the array would retain the rows.
	clear(o.rows[keep:])
	o.rows = o.rows[:keep]
	return nil
}

// size returns the bytes of a row and its keys. orderedOverhead stands for the slice headers. It is what add counts and
// bound subtracts, so it must not depend on anything that changes.
func (r *orderedRow) size() int {
	n := len(r.encoded) + orderedOverhead
	for _, k := range r.keys {
		n += len(k)
	}
	return n
}

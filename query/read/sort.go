package read

import (
	"slices"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
)

// sortedOrder compiles an ORDER BY that differs from the clustering order, or whose statement does not name its
// partitions: rows are sorted in memory. It requires ALLOW FILTERING, no PER PARTITION LIMIT, and a LIMIT unless the
// partitions are named. Cassandra rejects all such statements with the error declared. ORDER BY may name any column,
// and rows may come from an index or a token range, because the order in which they are read does not matter.
func (c *compiler) sortedOrder(p *Plan, stmt *cql.Select, columns []orderColumn, declared error) error {
	// Return Cassandra's error unless the client accepts the cost.
	if !stmt.AllowFiltering {
		return declared
	}
	switch {
	case p.distinct || p.aggregates() || stmt.PerPartitionLimit != nil:
		return declared // PER PARTITION LIMIT would count rows before they are sorted
	case p.where.KeyRange && stmt.Limit == nil:
		return invalid.Errorf("ORDER BY over all partitions needs a LIMIT of at most %d rows", sortRowsMax)
	}
	// Reject types without an order here, not at the first row.
	for _, o := range columns {
		// Values of these types have no order.
		if t := o.col.Type; t.MultiCell() || t.Kind() == types.Counter || t.Kind() == types.Duration {
			return invalid.Errorf("ORDER BY is not supported on column %s of type %s", o.col.Name, t)
		}
	}
	p.order, p.sorted, p.reversed = columns, true, false
	return nil
}

// sortedColumns returns the columns by which rows are sorted in memory. They count as restricted columns in the
// Decision on masks: the order of rows reveals real values, and the scores of a vector against a few others determine
// it.
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
// clustering order of the table: descending refers to the values.
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
	// Add in 64 bits, because both may be large.
	if n := uint64(limit) + uint64(offset); n > sortRowsMax {
		return invalid.Errorf("ORDER BY sorts at most %d rows in memory, but LIMIT and OFFSET select %d", sortRowsMax,
			n)
	}
	return nil
}

// bound keeps the rows that may be part of the result: the first ones, as many as LIMIT and OFFSET select. When twice
// as many rows have accumulated, bound sorts them and drops the worse half, so the amortized cost of a row is
// logarithmic in the number of kept rows. Without a LIMIT, too many rows are an error.
func (o *orderedRows) bound(run *reading) error {
	if run.pageLimit == noLimit {
		if len(o.rows) > sortRowsMax {
			return invalid.Errorf("ORDER BY sorts at most %d rows in memory; add a LIMIT", sortRowsMax)
		}
		return nil
	}
	// Keep the rows that OFFSET omits, too.
	keep := int(run.pageLimit + run.skip)
	if len(o.rows) < 2*keep && o.size <= pageBytesMax || len(o.rows) <= keep {
		return nil
	}
	// The sort is stable, so rows with equal keys stay in table order.
	slices.SortStableFunc(o.rows, run.plan.compareSorted)
	for _, r := range o.rows[keep:] {
		o.size -= r.size()
	}
	// Clear the tail, so that the array does not retain the rows.
	clear(o.rows[keep:])
	o.rows = o.rows[:keep]
	return nil
}

// size returns the bytes of a row and its keys. orderedOverhead stands for the slice headers. add adds this size and
// bound subtracts it, so it must be constant for a row.
func (r *orderedRow) size() int {
	n := len(r.encoded) + orderedOverhead
	for _, k := range r.keys {
		n += len(k)
	}
	return n
}

package read

import (
	"bytes"
	"slices"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/rowview"
	"cqld/request"
	"cqld/schema"
)

// orderColumn is an element of ORDER BY. descending is the direction in ORDER BY, which may differ from the
// clustering order of the table.
type orderColumn struct {
	col        *schema.Column
	descending bool
}

const orderByDeclared = "Order by currently only supports the ordering of columns following their declared order in " +
	"the PRIMARY KEY"

// orderBy compiles ORDER BY without ANN OF. There are three outcomes: the scan delivers rows in this order, possibly
// reversed (p.reversed); rows of several partitions are merged (p.order); or rows are sorted in memory (p.sorted).
func (c *compiler) orderBy(p *Plan, stmt *cql.Select) error {
	if len(stmt.OrderBy) == 0 {
		return nil
	}
	var columns []orderColumn
	for _, o := range stmt.OrderBy {
		col, err := c.Column(o.Column)
		if err != nil {
			return err
		}
		// As in Cassandra, a repeated column keeps its first position and gets its last direction.
		if at := slices.IndexFunc(columns, func(o orderColumn) bool { return o.col == col }); at >= 0 {
			columns[at].descending = o.Descending
			continue
		}
		columns = append(columns, orderColumn{col, o.Descending})
	}
	if err := p.declaredOrder(columns); err != nil {
		return c.sortedOrder(p, stmt, columns, err)
	}
	// One partition is read in the requested order, so its rows are not kept.
	if p.where.KeyIn() {
		// Each of several partitions is in clustering order, but their rows together are not.
		p.order = columns
	}
	return nil
}

// declaredOrder accepts an ORDER BY in clustering order or its reverse, and sets p.reversed. After an error,
// sortedOrder may still accept the statement.
func (p *Plan) declaredOrder(columns []orderColumn) error {
	if p.where.UsesIndex() {
		return invalid.Errorf("ORDER BY with 2ndary indexes is not supported, except for ANN queries.")
	}
	if p.where.KeyRange {
		return invalid.Errorf("ORDER BY is only supported when the partition key is restricted by an EQ or an IN.")
	}
	at := 0
	for i, o := range columns {
		if o.col.Kind != schema.Clustering {
			return invalid.Errorf("Order by is currently only supported on the clustered columns of the PRIMARY KEY, "+
				"got %s", o.col.Name)
		}
		// A clustering column that is restricted by = may be omitted. at is the position of the next clustering
		// column without a direction.
		for at != o.col.Position {
			if at >= len(p.table.Clustering) || !p.where.EqualTo(p.table.Clustering[at]) {
				return &invalid.Error{Msg: orderByDeclared}
			}
			at++
		}
		at++
		// A scan has one direction, so either all columns are in the table's order, or all are reversed.
		reversed := o.descending != o.col.Desc
		if i > 0 && reversed != p.reversed {
			return invalid.Errorf("Unsupported order by relation")
		}
		p.reversed = reversed
	}
	return nil
}

// orderedRows collects the rows of a SELECT with ORDER BY over several partitions until they can be sorted. It keeps
// the encoded rows of the result with the values by which they are sorted. Unlike nearestRows, it keeps all rows
// until the end, unless bound drops some.
type orderedRows struct {
	rows []orderedRow
	size int // bytes of all rows and their keys
}

// orderedRow is an encoded row of the result and the values of the ORDER BY columns. A key is nil if the row has no
// value in the column, for example a static row in a clustering column.
type orderedRow struct {
	keys    [][]byte
	encoded []byte
}

// add keeps a row. PER PARTITION LIMIT applies while rows are collected, since each partition is in the requested order
// already.
func (o *orderedRows) add(run *reading, v *rowview.View) (request.Verdict, error) {
	return run.afterRow(), o.keep(run, v)
}

// keep evaluates a row of the result and stores it for end. It fails if the rows to sort exceed pageBytesMax, because
// such a SELECT cannot be paged. It evaluates the row into the buffer of the result and copies it from there, so
// sorted and unsorted rows share the code.
func (o *orderedRows) keep(run *reading, v *rowview.View) error {
	start := len(run.buf.b)
	if err := run.appendRow(v); err != nil {
		return err
	}
	// The buffer is used for the next row, and the values are in the page.
	r := orderedRow{encoded: bytes.Clone(run.buf.b[start:]), keys: make([][]byte, len(run.plan.order))}
	run.buf.b = run.buf.b[:start]
	for i, by := range run.plan.order {
		r.keys[i] = bytes.Clone(v.Value(by.col))
	}
	o.size += r.size()
	o.rows = append(o.rows, r)
	if run.plan.sorted {
		if err := o.bound(run); err != nil {
			return err
		}
	}
	if err := run.reserve(run.kept()); err != nil {
		return err
	}
	if o.size > pageBytesMax {
		return invalid.Errorf("The rows to sort are larger than %d bytes; remove the ORDER BY or the IN and sort "+
			"client side", pageBytesMax)
	}
	return nil
}

// compareOrdered compares two rows by ORDER BY. A row without clustering comes first in the table's order, and last
// in the reverse order. Columns that the table declares DESC are compared in the table's order, and p.reversed
// reverses all of them: declaredOrder has checked that no mix exists.
func (p *Plan) compareOrdered(a, b orderedRow) int {
	for i, o := range p.order {
		n := 0
		switch x, y := a.keys[i], b.keys[i]; {
		// Both are null; compare the next column.
		case x == nil && y == nil:
		case x == nil:
			n = -1
		case y == nil:
			n = 1
		case o.col.Desc:
			n = o.col.Type.Compare(y, x)
		default:
			n = o.col.Type.Compare(x, y)
		}
		if p.reversed {
			n = -n
		}
		if n != 0 {
			return n
		}
	}
	return 0
}

// end sorts the collected rows and appends as many as the LIMIT allows to the result. The sort is stable: rows with
// equal keys keep the order of their partitions.
func (o *orderedRows) end(run *reading) error {
	compare := run.plan.compareOrdered
	if run.plan.sorted {
		compare = run.plan.compareSorted
	}
	slices.SortStableFunc(o.rows, compare)
	// Reserve memory for the result, which is a copy of the rows.
	if err := run.reserve(run.kept() + o.size); err != nil {
		return err
	}
	// OFFSET applies after the sort.
	omitted := min(int(run.skip), len(o.rows))
	for _, r := range o.rows[omitted:] {
		if uint32(run.count) >= run.pageLimit {
			break
		}
		run.count++
		run.buf.b = append(run.buf.b, r.encoded...)
	}
	return nil
}

// bytes returns the memory of the collected rows.
func (o *orderedRows) bytes(*reading) int { return o.size }

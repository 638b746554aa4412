package query

import (
	"bytes"
	"slices"

	"cqld/query/rowview"
)

// orderedRows collects the rows of a SELECT with ORDER BY over several partitions until they can be sorted. Rows are
// stored in their encoded form, with the values by which they are sorted.
type orderedRows struct {
	rows  []orderedRow
	bytes int // size of all rows and their keys
}

// orderedRow is an encoded row of the result and the values of the ORDER BY columns.
type orderedRow struct {
	keys    [][]byte
	encoded []byte
}

// orderRow evaluates a row of the result and stores it for endOrdered. It fails if the rows to sort exceed
// pageBytesMax, because such a SELECT cannot be paged.
func (run *selectRun) orderRow(v *rowview.View) error {
	start := len(run.buf.b)
	if err := run.appendRow(v); err != nil {
		return err
	}
	r := orderedRow{encoded: bytes.Clone(run.buf.b[start:]), keys: make([][]byte, len(run.plan.order))}
	run.buf.b = run.buf.b[:start]
	for i, o := range run.plan.order {
		r.keys[i] = bytes.Clone(v.Value(o.col))
	}
	run.ordered.bytes += r.size()
	run.ordered.rows = append(run.ordered.rows, r)
	if run.plan.sorted {
		if err := run.boundSorted(); err != nil {
			return err
		}
	}
	if run.ordered.bytes > pageBytesMax {
		return invalidf("The rows to sort are larger than %d bytes; remove the ORDER BY or the IN and sort client side", pageBytesMax)
	}
	return nil
}

// compareOrdered compares two rows by ORDER BY. A row without clustering comes first in the table's
// own order, ascending or not, and last in the reverse of it.
func (p *selectPlan) compareOrdered(a, b orderedRow) int {
	for i, o := range p.order {
		n := 0
		switch x, y := a.keys[i], b.keys[i]; {
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

// endOrdered sorts the collected rows and appends as many as the LIMIT allows to the result.
func (run *selectRun) endOrdered() {
	compare := run.plan.compareOrdered
	if run.plan.sorted {
		compare = run.plan.compareSorted
	}
	slices.SortStableFunc(run.ordered.rows, compare)
	omitted := min(int(run.skip), len(run.ordered.rows))
	for _, r := range run.ordered.rows[omitted:] {
		if uint32(run.count) >= run.pageLimit {
			break
		}
		run.count++
		run.buf.b = append(run.buf.b, r.encoded...)
	}
}

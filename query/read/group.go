package read

import (
	"bytes"
	"slices"

	"cqld/cql"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/query/restriction"
	"cqld/query/rowview"
	"cqld/query/selection"
	"cqld/request"
	"cqld/schema"
)

// groupByOrder is the error of a GROUP BY that does not follow the key; the wording is Cassandra's.
const groupByOrder = "Group by currently only support groups of columns following their declared order in the " +
	"PRIMARY KEY"

// groupBy compiles GROUP BY: columns of the primary key in its order, from which those restricted by = may be omitted,
// and at most one function as the last element. It returns Cassandra's error for other statements; the caller decides
// whether hashGroups accepts them. Columns of the partition key are not part of p.groups, because every partition
// begins a new group.
func (c *compiler) groupBy(p *Plan, groups []cql.Selector) error {
	if len(groups) == 0 {
		return nil
	}
	p.grouped = true
	// Each element of GROUP BY must be the next column of the key, except for columns with one value.
	key := slices.Concat(c.Table.PartitionKey, c.Table.Clustering)
	at, ended := 0, false
	for _, g := range groups {
		if ended {
			return invalid.Errorf("Functions are only supported on the last element of the GROUP BY clause")
		}
		x, err := selection.CompileOne(c.Compiler, g)
		if err != nil {
			return err
		}
		var col *schema.Column
		if plain, ok := x.(*selection.Column); ok {
			col = plain.Column
			if col.Kind != schema.PartitionKey && col.Kind != schema.Clustering {
				return invalid.Errorf("Group by is currently only supported on the columns of the PRIMARY KEY, got %s",
					// A function such as floor of a timestamp: rows with one value of it are not sorted by the next
					// column, so nothing may follow it.
					col.Name)
			}
		} else {
			ended = true
			columns := appendColumns(nil, c.Table, g)
			switch {
			case len(columns) == 0:
				return invalid.Errorf("GROUP BY functions must have one clustering column name as parameter")
			case len(columns) > 1:
				return invalid.Errorf("GROUP BY functions accept only one clustering column as parameter, got: %s",
					restriction.ColumnNames(columns))
			case columns[0].Kind != schema.Clustering:
				return invalid.Errorf("Group by functions are only supported on clustering columns, got %s",
					columns[0].Name)
			}
			col = columns[0]
		}
		for {
			if at == len(key) {
				return &invalid.Error{Msg: groupByOrder}
			}
			// Columns before col must be restricted by =, else the rows of one group would not be adjacent in the
			// table.
			k := key[at]
			at++
			if k == col {
				break
			}
			if !p.where.EqualTo(k) {
				return &invalid.Error{Msg: groupByOrder}
			}
		}
		if col.Kind == schema.Clustering {
			if p.distinct {
				return invalid.Errorf("Grouping on clustering columns is not allowed for SELECT DISTINCT queries")
			}
			p.groups = append(p.groups, x)
		}
	}
	// A group must lie in one partition, so that the scan can end it with the partition.
	if at < len(c.Table.PartitionKey) {
		return invalid.Errorf("Group by is not supported on only a part of the partition key")
	}
	return nil
}

// groupedRows makes a row of the result of each group of rows that follow each other, or of all rows if the SELECT has
// aggregates without GROUP BY. Only one group is in memory: the scan delivers rows in the order of the table, and
// groups are contiguous in it.
type groupedRows struct {
	first  *rowview.View // of the present group
	values [][]byte      // of GROUP BY in the present group
	given  bool          // the row of the present group has not been appended yet
	kept   int           // bytes of first

	previous uint32 // groups of the partition before the present one
}

// add adds a row to its group. A row of another group ends the previous one. The row of the result is evaluated on the
// first row of the group, with the aggregates of all of its rows, as in Cassandra. SkipRow is returned for every row,
// because the scan counts groups and not rows: Given is increased when a group ends.
func (g *groupedRows) add(run *reading, v *rowview.View) (request.Verdict, error) {
	// endGroup has evaluated the selectors on the first row of the other group.
	run.x.Row = v
	values, err := groupValues(&run.x, run.plan.groups)
	if err != nil {
		return 0, err
	}
	same := g.given && (!run.plan.grouped || bytes.Equal(v.Key.Bytes, g.first.Key.Bytes) &&
		slices.EqualFunc(values, g.values, bytes.Equal))
	if g.given && !same {
		// Given counts the groups of the present partition, for PER PARTITION LIMIT and the paging state.
		samePartition := bytes.Equal(v.Key.Bytes, g.first.Key.Bytes)
		if err := g.endGroup(run); err != nil {
			return 0, err
		}
		if samePartition {
			run.cursor.At.Given++
		}
		// The page is full. The scan stops before this row, which begins the first group of the next page.
		if run.enough() {
			run.scan.Request.Cost.Rows++ // the row was examined to find the end of its group
			return request.StopBefore, nil
		}
		if samePartition && run.perPartition > 0 && run.cursor.At.Given >= run.perPartition {
			// endGroup has set it to the first row of the ended group.
			return request.NextPartition, nil
		}
		run.x.Row = v
	}
	if !same {
		// The clone lives until the group ends, beyond the page that the row is in.
		g.kept = hashRowCopies * run.rowBytes
		if err := run.reserve(run.kept()); err != nil {
			return 0, err
		}
		g.first, g.given, g.previous = v.Clone(), true, run.cursor.At.Given
		g.values = g.values[:0]
		for _, b := range values {
			g.values = append(g.values, bytes.Clone(b))
		}
	}
	return request.SkipRow, aggregate(run, run.x.Aggregates)
}

// aggregate adds the current row to aggregates. Memory for an argument is reserved before a state can contain it, and
// that for what a function has made of it afterwards: until then it belongs to the function. A null argument is passed
// on; whether it counts is the function's rule.
func aggregate(run *reading, to []function.Accumulator) error {
	for i, a := range run.plan.selection.Aggregates {
		args, err := selection.EvalAll(&run.x, a.Args)
		if err != nil {
			return err
		}
		// A state may contain every argument, for example of a user-defined aggregate.
		n, before := 0, to[i].Size()
		for _, arg := range args {
			n += len(arg)
		}
		if err := run.reserve(run.kept() + n); err != nil {
			return err
		}
		if err := to[i].Add(args); err != nil {
			return err
		}
		if run.states += to[i].Size() - before; run.states > 0 {
			// A state that shrinks, as of max, makes no reservation. The reserved memory is not returned before the end
			// of the request.
			if err := run.reserve(run.kept()); err != nil {
				return err
			}
		}
	}
	return nil
}

// groupValues evaluates GROUP BY. Rows are grouped by the real values of columns, but by functions of what the client
// sees. Masks must not merge groups of columns that differ, or the result would have fewer rows than the page state
// counts. The returned values share the memory of the row.
func groupValues(x *selection.Context, groups []selection.Selector) ([][]byte, error) {
	out := make([][]byte, len(groups))
	for i, g := range groups {
		if plain, ok := g.(*selection.Column); ok {
			out[i] = x.Row.Value(plain.Column)
			continue
		}
		var err error
		if out[i], err = g.Value(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// endGroup appends the row of the current group and resets the aggregates. The row is evaluated on g.first, which is a
// clone and therefore still valid.
func (g *groupedRows) endGroup(run *reading) error {
	var err error
	switch {
	case run.plan.order != nil:
		// HAVING does not exist, so each group is a row of the result.
		err = run.ordered.keep(run, g.first)
	// OFFSET omits groups.
	case run.skip > 0:
		run.skip--
	default:
		run.count++
		err = run.appendRow(g.first)
	}
	if err != nil {
		return err
	}
	// Accumulators are reused for the next group. Reset returns them to the state after New.
	g.given = false
	run.states, g.kept = 0, 0
	for _, a := range run.x.Aggregates {
		a.Reset()
	}
	return nil
}

// end appends the row of the last group, unless the page has enough rows. A SELECT of aggregates without GROUP BY has
// one row also if no row was found.
func (g *groupedRows) end(run *reading) error {
	if !g.given && !run.plan.grouped {
		// An empty row: count is 0, and other aggregates are null.
		g.first = &rowview.View{}
		g.first.Reset(run.plan.table, run.cursor.Command.Now)
		g.given = true
	}
	if g.given && !run.enough() {
		if err := g.endGroup(run); err != nil {
			return err
		}
	}
	if run.plan.order != nil {
		// The groups were kept there instead of being appended.
		return run.ordered.end(run)
	}
	return nil
}

// bytes returns the memory of the present group, and of finished groups that wait to be sorted.
func (g *groupedRows) bytes(run *reading) int { return g.kept + run.ordered.size }

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

// groupByOrder is Cassandra's error for a GROUP BY that does not follow the order of the primary key.
const groupByOrder = "Group by currently only support groups of columns following their declared order in the " +
	"PRIMARY KEY"

// groupBy compiles GROUP BY. It accepts the columns of the primary key in their order, where columns restricted by =
// may be omitted, and one function as the last element. It returns Cassandra's error for other statements, which
// hashGroups may still accept. Columns of the partition key are not part of p.groups, because every partition begins
// a new group.
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
					// Rows with the same result of a function, such as floor(timestamp), are not sorted by the next
					// column, so no element may follow the function.
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
			// Columns before col must be restricted by =, otherwise the rows of a group would not be adjacent in the
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

// groupedRows is the sink of GROUP BY with adjacent rows, and of aggregates without GROUP BY, where all rows form one
// group. It appends one row to the result for each group. Only one group is in memory: the scan delivers rows in the
// order of the table, and groups are contiguous in it.
type groupedRows struct {
	first  *rowview.View // first row of the current group
	values [][]byte      // values of the GROUP BY elements in the current group
	given  bool          // the current group has rows that are not appended to the result yet
	kept   int           // bytes of first

	previous uint32 // groups of the partition before the current group
}

// add adds a row to its group. A row of another group ends the previous one. As in Cassandra, the selectors are
// evaluated on the first row of the group and the aggregates of all its rows. add returns SkipRow for every row,
// because Given counts groups: endGroup increases it.
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
		// Given counts the groups of the current partition, for PER PARTITION LIMIT and the paging state.
		samePartition := bytes.Equal(v.Key.Bytes, g.first.Key.Bytes)
		if err := g.endGroup(run); err != nil {
			return 0, err
		}
		if samePartition {
			run.cursor.At.Given++
		}
		// The page is full. The scan stops before this row, which begins the first group of the next page.
		if run.enough() {
			run.scan.Request.Cost.Rows++ // the row was read to find the end of the group
			return request.StopBefore, nil
		}
		if samePartition && run.perPartition > 0 && run.cursor.At.Given >= run.perPartition {
			// PER PARTITION LIMIT is reached, so the rest of the partition is skipped.
			return request.NextPartition, nil
		}
		run.x.Row = v
	}
	if !same {
		// Clone the row, because the group may outlive the page that contains it.
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

// aggregate adds the current row to aggregates. It reserves memory for each argument before the accumulator can
// retain it, and adjusts the reservation to the size of the state afterwards. It passes null arguments, too; the
// function determines whether they count.
func aggregate(run *reading, to []function.Accumulator) error {
	for i, a := range run.plan.selection.Aggregates {
		args, err := selection.EvalAll(&run.x, a.Args)
		if err != nil {
			return err
		}
		// The state may retain every argument, for example in a user-defined aggregate.
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
			// A smaller state, such as of max, reserves nothing. Reserved memory is returned only at the end of the
			// request.
			if err := run.reserve(run.kept()); err != nil {
				return err
			}
		}
	}
	return nil
}

// groupValues evaluates GROUP BY. Columns group by their real values: masks must not merge groups, otherwise the
// result would have fewer rows than the paging state counts. Functions group by their result for the masked values.
// The returned values share the memory of the row.
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
		// Each group is a row of the result, because CQL has no HAVING.
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
// one row even if no row was found.
func (g *groupedRows) end(run *reading) error {
	if !g.given && !run.plan.grouped {
		// Without rows, count is 0 and other aggregates are null.
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
		// ordered holds the finished groups and appends them.
		return run.ordered.end(run)
	}
	return nil
}

// bytes returns the memory of the current group, and of finished groups that wait for the sort.
func (g *groupedRows) bytes(run *reading) int { return g.kept + run.ordered.size }

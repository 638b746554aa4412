package read

import (
	"slices"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/query/rowview"
	"cqld/request"
	"cqld/schema"
)

// hashGroups compiles a GROUP BY of some columns of the partition key, whose groups span partitions: they are collected
// in memory. It needs ALLOW FILTERING. declared is the error of Cassandra, which refuses it. A refused statement keeps
// the error that Cassandra gives, so clients that test for it see no difference.
func (p *Plan) hashGroups(stmt *cql.Select, declared error) error {
	if declared == nil || !stmt.AllowFiltering || p.distinct || len(stmt.OrderBy) > 0 || stmt.PerPartitionLimit != nil {
		// Such a column is not part of the partition key, or not a plain column: Cassandra's error stays.
		return declared
	}
	var columns []*schema.Column
	for _, g := range stmt.GroupBy {
		// Functions are not supported: only equality of stored values is a group.
		plain, ok := g.(*cql.ColumnSelector)
		if !ok {
			return declared
		}
		col := p.table.Column(plain.Column)
		if col == nil || col.Kind != schema.PartitionKey || slices.Contains(columns, col) {
			return declared
		}
		columns = append(columns, col)
	}
	p.groups, p.hashed = nil, columns
	return nil
}

// hashedGroups are the groups of a GROUP BY that hashGroups compiled, in the order of their first rows. Groups span
// partitions, so none is complete before the scan is; the result has therefore no pages.
type hashedGroups struct {
	// From the lengths and values of the columns of GROUP BY to a position in groups.
	index  map[string]int
	groups []hashedGroup
	size   int // bytes of their first rows, approximately
}

// hashedGroup is one group: its first row, and its aggregates so far.
type hashedGroup struct {
	first *rowview.View
	// In the order of selection.Aggregates. Each group has its own, as all groups are open until the end.
	aggregates []function.Accumulator
}

// add adds a row to its group. The limit is an error and not a cut: with a cut, counts of the groups that are kept
// would be wrong.
func (h *hashedGroups) add(run *reading, v *rowview.View) (request.Verdict, error) {
	run.x.Row = v
	var key []byte
	for _, col := range run.plan.hashed {
		// With its length, so that different values never give one key.
		key = wire.AppendBytes(key, v.Value(col))
	}
	at, ok := h.index[string(key)]
	if !ok {
		if len(h.groups) == hashGroupsMax {
			return 0, invalid.Errorf("GROUP BY a part of the partition key collects at most %d groups in memory",
				hashGroupsMax)
		}
		// Made when the first row is found, so that other SELECTs do not pay for it.
		if h.index == nil {
			h.index = map[string]int{}
		}
		// Reserved before the row is cloned. The overhead stands for the entry of the map and the slices of the group.
		h.size += hashRowCopies*run.rowBytes + orderedOverhead + len(key)
		if err := run.reserve(run.kept()); err != nil {
			return 0, err
		}
		g := hashedGroup{first: v.Clone()}
		for _, a := range run.plan.selection.Aggregates {
			g.aggregates = append(g.aggregates, a.Function.New(&run.env))
		}
		at = len(h.groups)
		// The position, because append may move the groups.
		h.index[string(key)], h.groups = at, append(h.groups, g)
	}
	return request.SkipRow, aggregate(run, h.groups[at].aggregates)
}

// end appends the rows of the groups. The order is by first row, that is by token, and is the same for each execution
// on the same data.
func (h *hashedGroups) end(run *reading) error {
	for _, g := range h.groups[min(int(run.skip), len(h.groups)):] {
		if uint32(run.count) >= run.pageLimit {
			break
		}
		run.count++
		run.x.Aggregates = g.aggregates
		if err := run.appendRow(g.first); err != nil {
			return err
		}
		// The result is one page of any number of rows, and a message has a maximal size.
		if len(run.buf.b) > pageBytesMax {
			return invalid.Errorf("The result is larger than %d bytes", pageBytesMax)
		}
	}
	// They belong to the groups, not to run, whose own are reused.
	run.x.Aggregates = nil
	return nil
}

// bytes returns the memory of the groups.
func (h *hashedGroups) bytes(*reading) int { return h.size }

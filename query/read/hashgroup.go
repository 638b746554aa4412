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

// hashGroups compiles a GROUP BY of some columns of the partition key, whose groups span partitions and are collected
// in memory. It requires ALLOW FILTERING. Cassandra rejects such statements with the error declared, which hashGroups
// returns if it cannot accept the statement either.
func (p *Plan) hashGroups(stmt *cql.Select, declared error) error {
	if declared == nil || !stmt.AllowFiltering || p.distinct || len(stmt.OrderBy) > 0 || stmt.PerPartitionLimit != nil {
		// The element is not a column of the partition key, so return Cassandra's error.
		return declared
	}
	var columns []*schema.Column
	for _, g := range stmt.GroupBy {
		// Functions are not supported; groups compare stored values.
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
	// index maps the GROUP BY values, each preceded by its length, to a position in groups.
	index  map[string]int
	groups []hashedGroup
	size   int // bytes of their first rows, approximately
}

// hashedGroup is one group: its first row, and its aggregates so far.
type hashedGroup struct {
	first *rowview.View
	// aggregates is in the order of selection.Aggregates. Each group has its own accumulators, because all groups
	// grow until the scan ends.
	aggregates []function.Accumulator
}

// add adds a row to its group. Too many groups are an error: if rows of further groups were dropped, the result would
// silently lack groups.
func (h *hashedGroups) add(run *reading, v *rowview.View) (request.Verdict, error) {
	run.x.Row = v
	var key []byte
	for _, col := range run.plan.hashed {
		// The length makes keys unambiguous.
		key = wire.AppendBytes(key, v.Value(col))
	}
	at, ok := h.index[string(key)]
	if !ok {
		if len(h.groups) == hashGroupsMax {
			return 0, invalid.Errorf("GROUP BY a part of the partition key collects at most %d groups in memory",
				hashGroupsMax)
		}
		// Allocate the map with the first row, so that other SELECTs do not pay for it.
		if h.index == nil {
			h.index = map[string]int{}
		}
		// Reserve memory before cloning the row. The overhead covers the map entry and the slices of the group.
		h.size += hashRowCopies*run.rowBytes + orderedOverhead + len(key)
		if err := run.reserve(run.kept()); err != nil {
			return 0, err
		}
		g := hashedGroup{first: v.Clone()}
		for _, a := range run.plan.selection.Aggregates {
			g.aggregates = append(g.aggregates, a.Function.New(&run.env))
		}
		at = len(h.groups)
		// Store the position, because append may move the groups.
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
		// The result is a single page, and the size of a message is bounded.
		if len(run.buf.b) > pageBytesMax {
			return invalid.Errorf("The result is larger than %d bytes", pageBytesMax)
		}
	}
	// The accumulators belong to the groups; run must not reuse them.
	run.x.Aggregates = nil
	return nil
}

// bytes returns the memory of the groups.
func (h *hashedGroups) bytes(*reading) int { return h.size }

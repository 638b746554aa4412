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
// in memory. It needs ALLOW FILTERING. declared is the error of Cassandra, which refuses it.
func (p *Plan) hashGroups(stmt *cql.Select, declared error) error {
	if declared == nil || !stmt.AllowFiltering || p.distinct || len(stmt.OrderBy) > 0 || stmt.PerPartitionLimit != nil {
		// Such a column is not part of the partition key, or not a plain column: Cassandra's error stays.
		return declared
	}
	var columns []*schema.Column
	for _, g := range stmt.GroupBy {
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

// hashedGroups are the groups of a GROUP BY that hashGroups compiled, in the order of their first rows.
type hashedGroups struct {
	index  map[string]int
	groups []hashedGroup
	size   int // bytes of their first rows, approximately
}

// hashedGroup is one group: its first row, and its aggregates so far.
type hashedGroup struct {
	first      *rowview.View
	aggregates []function.Accumulator
}

// add adds a row to its group.
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
		if h.index == nil {
			h.index = map[string]int{}
		}
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

// end appends the rows of the groups.
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

package read

import (
	"bytes"
	"container/heap"
	"fmt"
	"slices"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/execution"
	"cqld/query/invalid"
	"cqld/query/restriction"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/request"
	"cqld/schema"
	"cqld/types"
	"cqld/types/similarity"
)

// nearest is ORDER BY column ANN OF vector. It is part of a plan and shared by its executions.
type nearest struct {
	// col is the vector column, and to the vector with which its values are compared. check sets function and index.
	col      *schema.Column
	to       term.Term
	function similarity.Function
	index    *schema.Index
}

// checkOrderings refuses other elements of ORDER BY beside ANN OF. The messages are Cassandra's. orderings contains at
// least one ANN OF.
func checkOrderings(orderings []cql.Ordering) error {
	near := 0
	for _, o := range orderings {
		if o.ANN != nil {
			near++
		}
	}
	switch {
	case near > 1:
		return invalid.Errorf("Cannot specify more than one ANN ordering")
	case len(orderings) > 1:
		return invalid.Errorf("ANN ordering does not support any other ordering")
	// The only element is ANN OF.
	case orderings[0].Descending:
		return invalid.Errorf("Descending ANN ordering is not supported")
	}
	return nil
}

// orderings resolves the columns and vectors of ORDER BY. Cassandra does this before it compiles WHERE. The last ANN OF
// wins here; checkOrderings, which runs later, rejects several of them.
func (c *compiler) orderings(orderings []cql.Ordering) (near *nearest, err error) {
	for _, o := range orderings {
		col, err := c.Column(o.Column)
		if err != nil {
			return nil, err
		}
		// The column of any other element must exist, too.
		if o.ANN == nil {
			continue
		}
		near = &nearest{col: col}
		if near.to, err = c.ColumnTerm(o.ANN, col); err != nil {
			return nil, err
		}
	}
	return near, nil
}

// orderByNearest adds ANN OF to the restrictions of WHERE.
func (c *compiler) orderByNearest(where *restriction.Set, n *nearest, orderings []cql.Ordering) error {
	if err := checkOrderings(orderings); err != nil {
		return err
	}
	n.index = restriction.VectorIndex(c.Table, n.col)
	return where.OrderBy(n.col, n.index != nil)
}

// check rejects a column without a vector index, and restrictions on unindexed columns, which would need filtering.
// It sets the index and the similarity function.
func (n *nearest) check(where *restriction.Set) error {
	switch {
	case n.col.Type.Kind() != types.Vector || n.col.Type.Elems()[0].Kind() != types.Float:
		return invalid.Errorf("ANN ordering is only supported on float vector indexes")
	case n.index == nil:
		return invalid.Errorf("ANN ordering by vector requires the column to be indexed")
	}
	// The index was validated when it was created.
	n.function, _ = similarity.Of(n.index.Options)
	return where.CheckNearest()
}

// checkVectors rejects relations on columns with vector indexes, because a vector index orders rows but cannot find
// equal values. It ignores relations on several columns and on tokens, which cannot name a vector.
func (c *compiler) checkVectors(where []cql.Relation) error {
	for _, relation := range where {
		name := ""
		switch relation := relation.(type) {
		case *cql.ColumnRelation:
			name = relation.Column
		case *cql.InRelation:
			name = relation.Column
		}
		// restriction.Compile reports unknown columns.
		if col := c.Table.Column(name); col != nil && restriction.VectorIndex(c.Table, col) != nil {
			return invalid.Errorf("Vector indexes only support ANN queries")
		}
	}
	return nil
}

// checkNearest rejects clauses that cannot be combined with ANN OF. CheckNearestFiltering replaces the ALLOW
// FILTERING check of other SELECTs.
func (p *Plan) checkNearest(stmt *cql.Select) error {
	if err := p.where.CheckNearestFiltering(stmt.AllowFiltering); err != nil {
		return err
	}
	switch {
	case p.aggregates():
		return invalid.Errorf("Top-K queries can not be run with aggregation")
	case stmt.PerPartitionLimit != nil:
		return invalid.Errorf("Top-K queries do not support per-partition limits")
	}
	return nil
}

// nearestRows is the sink of a SELECT with ANN OF: it keeps the rows with the best scores. After a scan the result is
// exact. With an index search, replicas return approximate nearest rows, and this node computes their scores again.
type nearestRows struct {
	value []byte // the vector with which others are compared
	to    []float32
	// LIMIT, from 1 to nearestMax.
	limit int
	other []float32 // scratch memory for the vector of a row
	rows  nearestHeap
	size  int // bytes of all rows
	// seen counts the rows compared so far; it orders rows with equal scores.
	seen int
}

// nearestRow is an encoded row of the result. It is encoded when it is kept, because the page that contains its values
// is released before the end.
type nearestRow struct {
	score   float32
	seen    int // rows before it in table order; orders rows with equal scores
	encoded []byte
}

// nearestHeap is a heap.Interface whose first row is the worst one: the first that a better row replaces. Its length
// never exceeds LIMIT.
type nearestHeap []nearestRow

// Len implements heap.Interface.
func (h nearestHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h nearestHeap) Less(i, j int) bool { return h[i].after(&h[j]) }

// Swap implements heap.Interface.
func (h nearestHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *nearestHeap) Push(x any) { *h = append(*h, x.(nearestRow)) }

// Pop implements heap.Interface.
func (h *nearestHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// after reports whether a follows b in the result. It is a strict order: seen is unique.
func (a *nearestRow) after(b *nearestRow) bool {
	if a.score != b.score {
		return a.score < b.score
	}
	return a.seen > b.seen
}

// begin evaluates the vector and LIMIT of a SELECT with ANN OF, before WHERE is evaluated, and rejects paging. It
// validates the type and dimension of the vector, so keep need not.
func (n *nearestRows) begin(run *reading, r *request.Request, limit uint32, params *execution.Params) error {
	near := run.plan.near
	if r.Consistency.IsSerial() {
		return invalid.Errorf("Top-K queries can only be run with consistency level ONE/LOCAL_ONE. Consistency level "+
			"%s was used.", r.Consistency)
	}
	switch {
	case limit == 0:
		return invalid.Errorf("Top-K queries must have a limit specified and the limit must be less than the query " +
			"page size")
	case limit > nearestMax:
		return invalid.Errorf("Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than %d. "+
			"LIMIT was %d", nearestMax, limit)
	case len(params.PagingState) > 0:
		return invalidPagingState()
	}
	// As in Cassandra, the result is one page.
	if size := params.PageSize; size > 0 && uint32(size) < limit {
		r.Warn(fmt.Sprintf("Top-K queries do not support paging and the page size is set to %d, which is less than "+
			"LIMIT %d. "+
			"The page size has been set to %d to match the LIMIT.", size, limit, limit))
	}
	v, err := near.to.Eval(&run.x.Scope)
	if err != nil {
		return err
	}
	switch v.Kind {
	case wire.ValueNull:
		return invalid.Errorf("Unsupported null value for column %s", near.col.Name)
	case wire.ValueUnset:
		return invalid.Errorf("Unsupported unset value for column %s", near.col.Name)
	}
	// A bound vector may have another dimension.
	if err := near.col.Type.Validate(v.Bytes); err != nil {
		return invalid.Errorf("%s", err)
	}
	*n = nearestRows{value: v.Bytes, to: similarity.Decode(n.to[:0], v.Bytes), limit: int(limit)}
	if !near.function.Comparable(n.to) {
		return restriction.Incomparable(near.function, n.to)
	}
	run.paged = false
	return nil
}

// add keeps a row of the table if it is one of the best. The scan cannot stop early: a later row may have a better
// score.
func (n *nearestRows) add(run *reading, v *rowview.View) (request.Verdict, error) {
	return request.NextRow, n.keep(run, v)
}

// keep is add without a verdict. It omits rows without a vector, and vectors that the function cannot compare, for
// example the zero vector with cosine.
func (n *nearestRows) keep(run *reading, v *rowview.View) error {
	n.seen++
	value := v.Value(run.plan.near.col)
	if len(value) != 4*len(n.to) { // null; other values have 4 bytes for each element
		return nil
	}
	n.other = similarity.Decode(n.other[:0], value)
	if !run.plan.near.function.Comparable(n.other) { // the value may be older than the index
		return nil
	}
	row := nearestRow{seen: n.seen}
	// Both vectors are comparable, so Score succeeds.
	row.score, _ = run.plan.near.function.Score(n.to, n.other)
	full := len(n.rows) == n.limit
	// Most rows are dropped here, before their values are copied.
	if full && row.after(&n.rows[0]) {
		return nil
	}
	start := len(run.buf.b)
	if err := run.appendRow(v); err != nil {
		return err
	}
	// The buffer is used for the next row.
	row.encoded = bytes.Clone(run.buf.b[start:])
	run.buf.b = run.buf.b[:start]
	// Invariant: n.rows contains the best n.limit rows seen so far. A better row replaces the worst, n.rows[0], so
	// LIMIT and pageBytesMax bound the memory for a table of any size.
	if full {
		n.size -= len(n.rows[0].encoded)
		n.rows[0] = row
		heap.Fix(&n.rows, 0)
	} else {
		heap.Push(&n.rows, row)
	}
	if n.size += len(row.encoded); n.size > pageBytesMax {
		return invalid.Errorf("The rows to sort are larger than %d bytes; use a smaller LIMIT", pageBytesMax)
	}
	return run.reserve(run.kept())
}

// end appends the rows to the result, the best one first. The result is a copy of the rows, so end reserves memory
// for both.
func (n *nearestRows) end(run *reading) error {
	if err := run.reserve(run.kept() + n.size); err != nil {
		return err
	}
	slices.SortFunc(n.rows, func(a, b nearestRow) int {
		// Two rows never compare equal, because seen differs.
		if a.after(&b) {
			return 1
		}
		return -1
	})
	for _, r := range n.rows {
		run.count++
		run.buf.b = append(run.buf.b, r.encoded...)
	}
	return nil
}

// bytes returns the memory of the rows.
func (n *nearestRows) bytes(*reading) int { return n.size }

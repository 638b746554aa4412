package read

import (
	"slices"
	"time"

	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/query/execution"
	"cqld/query/guardrail"
	"cqld/query/invalid"
	"cqld/query/mask"
	"cqld/query/restriction"
	"cqld/query/rowview"
	"cqld/query/selection"
	"cqld/query/term"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
)

// reading is one execution of a SELECT. Readings are pooled: put clears state and keeps the buffers of the other
// fields. One goroutine uses a reading, from Get to put. It implements the Source and the Consumer of its scan, which
// calls it for each row.
type reading struct {
	// put clears state with one assignment.
	state
	// x contains the values, functions and masks with which selectors are evaluated. put keeps the array of its
	// Aggregates.
	x selection.Context
	// scan sends commands, decodes pages and calls the methods in scan.go.
	scan   request.Scan
	cursor request.Read // what the scan reads
	view   rowview.View // the current row
	// filters are the conditions of WHERE that are evaluated on each row. A row must satisfy all of them.
	filters []restriction.Filter
	// values is scratch memory for the values of one partition key.
	values [][]byte
}

// state is the state of one execution of a SELECT.
type state struct {
	// begin sets these fields; they are constant until put.
	reader *Reader
	plan   *Plan
	env    execution.Environment
	begun  bool // Next has returned the cursor to the scan
	masks  *mask.Table
	index  restriction.Choice // the index that finds rows, if any
	growTo uint32             // each command requests twice as many rows, up to this number; 0 means a constant number
	fixed  int                // columns of the view from the partition's header
	// buf contains the encoded rows of the page so far, and count is their number. result passes buf to the caller
	// and sets it to nil.
	buf   *Buffer
	count int32

	request  *request.Request
	reserved int // bytes reserved for kept data
	rowBytes int // encoded size of the current row

	timeouts execution.Timeouts
	deadline time.Duration // end of USING TIMEOUT, by the monotonic clock; 0 means none

	pageLimit    uint32 // rows or groups of this page
	perPartition uint32 // 0 means no limit
	skip         uint32 // rows or groups that OFFSET still omits
	paged        bool

	guard *guardrail.Guard

	// sink is plainRows, or one of the fields after it, which are cleared with the state. Only the sink in use has
	// rows, except that grouped passes its rows to ordered for sorting.
	sink    sink
	grouped groupedRows
	hashed  hashedGroups
	ordered orderedRows
	near    nearestRows
	states  int // bytes of the accumulators' states
}

// execute executes a plan and adds its cost to r.Cost. The client receives the error of the first failing step:
// bounds, ANN OF, WHERE, guardrails, paging state, OFFSET, consistency level. Executions share the plan; they only
// change its estimate of page sizes. On an error execute returns no rows, and put releases the buffer.
func (run *reading) execute(r *request.Request, reader *Reader, plan *Plan, params *execution.Params) (Rows, error) {
	run.begin(r, reader, plan, params.Values, reader.o.Moment(params))
	limit, err := run.bounds(r, params)
	if err != nil {
		return Rows{}, err
	}
	paged := params.PageSize > 0
	// run.paged records that the client requested pages. The variable becomes false if the result cannot be paged.
	run.paged = paged
	if plan.sorted || plan.hashed != nil {
		paged = false // the result is one page
	}
	if plan.near != nil {
		// Before WHERE is evaluated, so that its errors come first.
		if err := run.near.begin(run, r, limit, params); err != nil {
			return Rows{}, err
		}
		paged = false
	}
	empty, err := run.visibleWhere(r)
	if err != nil {
		return Rows{}, err
	}
	// As in Cassandra, paging is an error only for results with rows. Aggregates return a row even if WHERE is empty.
	if plan.order != nil && paged && (!empty || plan.aggregates()) {
		return Rows{}, invalid.Errorf("Cannot page queries with both ORDER BY and a IN restriction on the partition " +
			"key; you must either remove the ORDER BY or the IN and sort client side, or disable paging for this query")
	}
	// where has expanded IN lists to keys and slices.
	if err := run.guardKeys(len(run.cursor.Keys), len(run.cursor.Command.Slices), int(params.PageSize)); err != nil {
		return Rows{}, err
	}
	if err := run.guardIntersection(r); err != nil {
		return Rows{}, err
	}
	start, remaining, err := run.resume(params, limit)
	if err != nil {
		return Rows{}, err
	}
	if r.Measured() {
		r.Cost.Path = string(plan.path(reader.o.IsVirtual(plan.table), empty))
	}
	run.pageLimit = noLimit
	if remaining > 0 {
		run.pageLimit = remaining
	}
	if paged && (plan.grouped || !plan.aggregates()) {
		// Aggregates without GROUP BY have one row, which fits into every page.
		run.pageLimit = min(run.pageLimit, uint32(params.PageSize))
	}
	if start == nil { // rows are omitted before the first row of the first page
		if run.skip, err = run.offset(); err == nil {
			err = plan.checkSorted(run.pageLimit, run.skip)
		}
		if err != nil {
			return Rows{}, err
		}
	}
	run.limits(params.PageSize, run.pushDown(r.Consistency))
	// A serial read must name one partition. If WHERE is empty, there is no Paxos round.
	if err := execution.CheckSerialReadLevel(r.Consistency, len(run.cursor.Keys)); err != nil && !empty {
		return Rows{}, err
	}
	if !plan.single { // a single row needs no deadline
		run.scan.Cancel = env.NewCancel(r.Context)
	}
	if !empty {
		// The state may come from another statement and name a partition that this one does not select.
		if start != nil && !run.cursor.Seek(*start) {
			return Rows{}, invalidPagingState()
		}
		if err := run.read(r); err != nil {
			return Rows{}, err
		}
	}
	if err := run.sink.end(run); err != nil {
		return Rows{}, err
	}
	return run.result(r, params, remaining), nil
}

// setTimeout sets the timeouts of the statement. USING TIMEOUT overrides the timeouts of the configuration, also for
// Paxos of serial reads.
func (run *reading) setTimeout(params *execution.Params) error {
	params, err := params.WithTimeout(run.plan.timeout, params.Values)
	if err != nil {
		return err
	}
	// These timeouts apply to each command. The deadline below bounds all commands together.
	run.timeouts = run.reader.o.TimeoutsOf(params)
	if timeout := params.Timeout(); timeout > 0 {
		run.deadline = run.reader.o.Clock.Monotonic() + timeout
	}
	return nil
}

// bounds evaluates the timeout, LIMIT and PER PARTITION LIMIT, and checks the guardrails of reads and the values in the
// select clause. It returns LIMIT; 0 means none.
func (run *reading) bounds(r *request.Request, params *execution.Params) (limit uint32, err error) {
	run.guard = run.reader.o.DataGuard(r)
	if err := run.guardRead(r); err != nil {
		return 0, err
	}
	if err := run.setTimeout(params); err != nil {
		return 0, err
	}
	if limit, err = run.limit(run.plan.limit); err != nil {
		return 0, err
	}
	// DISTINCT returns one row for each partition, so PER PARTITION LIMIT has no effect.
	if run.perPartition, err = run.limit(run.plan.perPartition); run.plan.distinct {
		run.perPartition = 1
	}
	if err == nil {
		err = run.plan.selection.CheckValues(&run.x)
	}
	return limit, err
}

// resume returns where the previous page ended, or nil, and how many rows of LIMIT remain. It validates the table and
// the authentication code of a state. Clients may therefore pass the state of another SELECT of the same table;
// execute rejects it if its partition is not selected.
func (run *reading) resume(params *execution.Params, limit uint32) (start *scan.Position, remaining uint32, err error) {
	if len(params.PagingState) == 0 {
		return nil, limit, nil
	}
	if run.plan.sorted || run.plan.hashed != nil {
		// The first row is known only after all rows were read, so the result is one page and the state comes from
		// another statement.
		return nil, 0, invalidPagingState()
	}
	state, err := decodePagingState(params.PagingState, run.pagingKeys(), run.plan.table)
	if err != nil && run.plan.fragments != nil {
		// The state may be valid on the node that created it.
		return nil, 0, invalid.Errorf(fragmentsMoved)
	}
	if err != nil {
		return nil, 0, invalidPagingState()
	}
	if limit > 0 && state.Remaining > 0 {
		// LIMIT counts over all pages. Remaining is 0 if the previous page had no LIMIT, for example because its
		// marker was unset.
		limit = min(limit, state.Remaining)
	}
	return &state.At, limit, nil
}

// begin prepares run for a statement: everything that does not depend on WHERE.
func (run *reading) begin(r *request.Request, reader *Reader, plan *Plan, values []wire.Value, now execution.Moment) {
	run.reader, run.plan, run.request = reader, plan, r
	run.env = reader.o.Environment(r, now)
	run.x = selection.Context{Scope: term.Scope{Values: values, Env: &run.env}, Masks: run.masks,
		Aggregates: run.x.Aggregates[:0], Memory: valueMemory{run}}
	for _, a := range plan.selection.Aggregates {
		// Create accumulators for each execution, because they have state.
		run.x.Aggregates = append(run.x.Aggregates, a.Function.New(&run.env))
	}
	run.cursor.Tokens = ring.FullRange()
	run.cursor.Command = row.ReadCommand{Table: plan.table.StorageID, Reversed: plan.reversed,
		StaticCounts: plan.staticCounts, Now: now.Seconds}
	// The sinks are fields of run, so this does not allocate.
	run.sink = run.sinkOf(plan)
	run.buf = reader.buffers.Get().(*Buffer)
	run.buf.b = run.buf.b[:0]
}

// put returns run to the pool, without references to the request. It must run after every execution, also one with an
// error, because the scan may hold pages whose memory is reserved. Slices keep their arrays: the next execution appends
// to them.
func (run *reading) put() {
	reader := run.reader
	if run.buf != nil {
		// buf is not nil only after an error; otherwise result has passed it to the caller.
		run.buf.Release()
	}
	run.view.Release()
	// The scan returns the memory of its last page.
	run.scan.Reset()
	run.cursor.Reset()
	run.x = selection.Context{Aggregates: run.x.Aggregates[:0]}
	run.filters, run.values = run.filters[:0], run.values[:0]
	// state contains all references to the request.
	run.state = state{}
	reader.readings.Put(run)
}

// limit evaluates LIMIT or PER PARTITION LIMIT; 0 means none.
func (run *reading) limit(t term.Term) (uint32, error) {
	if t == nil {
		return 0, nil
	}
	v, err := t.Eval(&run.x.Scope)
	// As in Cassandra, UNSET means no limit.
	if err != nil || v.Kind == wire.ValueUnset {
		return 0, err
	}
	if v.Kind == wire.ValueNull || len(v.Bytes) != 4 {
		return 0, invalid.Errorf("Invalid null value of limit")
	}
	c := wire.NewCursor(v.Bytes)
	n := c.Int32()
	if n <= 0 {
		return 0, invalid.Errorf("LIMIT must be strictly positive")
	}
	return uint32(n), nil
}

// offset evaluates OFFSET; 0 means none. Cassandra has no OFFSET: its rules equal the rules of LIMIT, except that 0
// is allowed.
func (run *reading) offset() (uint32, error) {
	t := run.plan.offset
	if t == nil {
		return 0, nil
	}
	v, err := t.Eval(&run.x.Scope)
	if err != nil || v.Kind == wire.ValueUnset {
		return 0, err
	}
	if v.Kind == wire.ValueNull || len(v.Bytes) != 4 {
		return 0, invalid.Errorf("Invalid null value of offset")
	}
	c := wire.NewCursor(v.Bytes)
	// Unlike LIMIT, 0 is valid: it omits nothing.
	switch n := c.Int32(); {
	case n < 0:
		return 0, invalid.Errorf("OFFSET must not be negative")
	// The omitted rows are read within one page, so their number is bounded.
	case n > offsetMax:
		return 0, invalid.Errorf("OFFSET must not be greater than %d; fetch the rows by pages", offsetMax)
	default:
		return uint32(n), nil
	}
}

// where evaluates WHERE. empty means that no row can match. On return the cursor contains the keys or the token
// range, and the slices of each partition; filters and index represent the rest of WHERE. If empty, execute sends no
// read but still checks guardrails and the paging state.
func (run *reading) where() (empty bool, err error) {
	rs, s := run.plan.where, &run.x.Scope
	run.cursor.Keys = nil
	if run.plan.single {
		// WHERE is the complete key of one row: there are no lists of slices and no filters.
		return false, run.singleRow()
	}
	if run.cursor.Command.Slices, err = rs.Slices(s); err != nil {
		return false, err
	}
	if len(run.cursor.Command.Slices) == 0 {
		return true, nil // for every partition key
	}
	switch {
	case rs.KeyRange:
		// WHERE restricts the token, or not the partition key at all, so the read covers a token range.
		if run.cursor.Tokens, empty, err = rs.Tokens(s); err != nil {
			return false, err
		}
	case run.plan.oneKey:
		// WHERE selects one partition. One stores the key in the cursor itself, so no list is allocated.
		if _, err = run.partitionKey(nil); err != nil {
			return false, err
		}
	default:
		// Build the product of the IN lists; PartitionKeys bounds it.
		if run.cursor.Keys, err = rs.PartitionKeys(s); err != nil {
			return false, err
		}
		if err = restriction.CheckProduct(len(run.cursor.Keys), len(run.cursor.Command.Slices)); err != nil {
			return false, err
		}
		empty = len(run.cursor.Keys) == 0
	}
	// Reuse the slice of the previous execution.
	if run.filters, err = rs.Filters(s, run.filters[:0]); err != nil {
		return false, err
	}
	if rs.Index() != nil {
		// Count index entries at execution, because the terms depend on bound values.
		if run.index, err = rs.ChooseIndex(s, run.entryCounter()); err != nil {
			return false, err
		}
		empty = empty || len(run.index.Terms) == 0
	}
	return empty, nil
}

// visibleWhere is where without the partitions that the client may not read. Options.Visible restricts clients
// without SELECT to some partitions, today to their own traces. It removes the other partitions from the cursor, and
// returns an error if the statement does not name partitions or the permission cannot be checked.
func (run *reading) visibleWhere(r *request.Request) (empty bool, err error) {
	empty, err = run.where()
	if err != nil || run.reader.o.Visible == nil {
		return empty, err
	}
	t := run.plan.table
	if run.plan.fragments != nil {
		// Fragments show rows of the base table, so its permissions apply.
		t = run.plan.fragments.Base
	}
	visible, denied := run.reader.o.Visible(r, t)
	if visible == nil {
		return empty, denied
	}
	if run.cursor.Keys == nil && !empty {
		// The statement does not name partitions, so it would also read partitions that the client may not see.
		return false, denied
	}
	run.cursor.Keys = slices.DeleteFunc(run.cursor.Keys, func(k row.PartitionKey) bool { return !visible(k.Bytes) })
	return empty || len(run.cursor.Keys) == 0, nil
}

// partitionKey sets the cursor to the single partition that WHERE selects. It stores the key in dst if there is room,
// and returns the unused part of dst.
func (run *reading) partitionKey(dst []byte) (rest []byte, err error) {
	// SingleKey may move the scratch memory to a larger array, so store it again.
	key, values, err := run.plan.where.SingleKey(&run.x.Scope, dst, run.values)
	if run.values = values; err != nil {
		return nil, err
	}
	// The capacity ends with the key, because the rest of dst is used for the clustering.
	run.cursor.One(row.NewPartitionKey(key[:len(key):len(key)]))
	if len(key) > cap(dst) {
		// The key did not fit into dst, so all of dst is still unused.
		return dst, nil
	}
	return dst[len(key):len(key):cap(dst)], nil
}

// rowKey is the key of one row in a single allocation, if the columns of the key are short. It must not be pooled,
// because the command may be used after the result was returned.
type rowKey struct {
	slices [1]row.Slice
	bytes  [80]byte
}

// singleRow is where for the key of one row: it builds no lists.
func (run *reading) singleRow() error {
	k := new(rowKey)
	rest, err := run.partitionKey(k.bytes[:0])
	if err != nil {
		return err
	}
	b, err := run.plan.where.SingleClustering(&run.x.Scope, rest)
	if err != nil {
		return err
	}
	// The end of an exact row is its clustering followed by a zero byte: the least key after it, since clusterings are
	// compared as bytes.
	n := len(b)
	b = append(b, 0)
	// row.ExactRow(b[:n]) without a copy
	k.slices[0] = row.Slice{Start: b[:n:n], End: b}
	run.cursor.Command.Slices = k.slices[:]
	return nil
}

// limits determines how many rows a command requests. pushed means that replicas evaluate all filters. A number that
// is too small costs further commands, and one that is too large reads rows that the page does not need. These limits
// apply to each command; pageLimit, which execute has set, ends the page.
func (run *reading) limits(pageSize int32, pushed bool) {
	limits := &run.cursor.Command.Limits
	// Add in 64 bits, because pageLimit is noLimit without a LIMIT. The rows that OFFSET omits are read, too.
	rows := uint32(min(uint64(run.pageLimit)+uint64(run.skip), batchMax))
	run.cursor.PerPartition = run.perPartition
	// Replicas also count rows that only have cells of dropped columns. With a limit per partition, such rows could
	// use up the limit and hide later rows.
	counted := len(run.plan.table.Dropped) == 0
	switch {
	// ANN OF compares every row and keeps few.
	case run.plan.near != nil:
		limits.Rows = pageInternal
	case (pushed || run.plan.where.Index() != nil) && !run.plan.distinct && !run.plan.aggregates() &&
		run.plan.order == nil:
		// Replicas may evaluate fewer filters while the ring changes, and rows of an index may not match, so later
		// commands request more rows.
		limits.Rows, run.growTo = rows, batchMax
	case len(run.filters) == 0 && !run.plan.aggregates() && run.plan.order == nil &&
		(counted || run.perPartition == 0):
		// Every row from a replica is a row of the result, so replicas can apply both limits.
		limits.PerPartition = run.perPartition
		limits.Rows = rows
	case len(run.filters) == 0 && !run.plan.aggregates() && run.plan.order == nil:
		// Rows with only cells of dropped columns are rare, and reading a partition beyond its limit is wasted work.
		run.growTo = min(max(run.perPartition, partitionRows), batchMax)
		limits.Rows = min(rows, run.growTo)
	case run.plan.distinct && counted:
		// One row proves that the partition exists, and the next command continues with the next partition.
		limits.PerPartition = 1
		limits.Rows = pageInternal
	case run.plan.distinct:
		limits.Rows = partitionRows
	default:
		limits.Rows = pageInternal
		if pageSize > 0 {
			// Filters and aggregates need more rows than the page has.
			limits.Rows = max(uint32(pageSize), 100)
		}
	}
}

// afterRow continues, with the next partition if this one has reached its limit. Sinks that turn each table row into
// a result row use it; groups are counted in groupedRows.add.
func (run *reading) afterRow() request.Verdict {
	// Given does not include the current row yet.
	if run.perPartition > 0 && run.cursor.At.Given+1 >= run.perPartition {
		return request.NextPartition
	}
	return request.NextRow
}

// appendRow appends the selected values of a row to the result. Each value is a CQL [bytes]: its length as an int, -1
// for null, and the value. It reserves memory before the buffer grows, except for small rows with columns that are
// selected once, which exceed the reservation by at most one row. reserveRow has reserved memory for large rows.
func (run *reading) appendRow(v *rowview.View) error {
	// In the usual case, columns are returned as they are stored.
	if columns := run.plan.selection.Plain; columns != nil && run.x.Masks == nil {
		if run.plan.selection.Repeats {
			if err := reserveColumns(run, v, columns); err != nil {
				return err
			}
		}
		dst := run.buf.b
		for _, c := range columns {
			dst = v.Append(dst, c)
		}
		run.buf.b = dst
		return run.reserve(run.kept())
	}
	// With functions, masks or converted columns, evaluate every selector on the row.
	run.x.Row = v
	for _, s := range run.plan.selection.Selectors {
		b, err := s.Value(&run.x)
		if err != nil {
			return err
		}
		// Thousands of selectors may each have a value as large as the row.
		if n := 4 + len(b); n > cap(run.buf.b)-len(run.buf.b) {
			if err := run.reserve(run.kept() + n); err != nil {
				return err
			}
		}
		run.buf.b = wire.AppendBytes(run.buf.b, b)
	}
	return run.reserve(run.kept())
}

// enough reports whether the result is complete. It reports false for a sorted result, which is cut after the sort.
// Groups use it, because they find the end of a group only with the first row of the next.
func (run *reading) enough() bool {
	// The result is complete by rows or, if it can be continued, by bytes.
	return run.plan.order == nil && (uint32(run.count) >= run.pageLimit || run.paged &&
		len(run.buf.b) >= run.reader.o.PageBytes)
}

// result returns the rows of the page, with warnings about their cost. The paging state contains the cursor's
// position, so the server keeps no state between pages.
func (run *reading) result(r *request.Request, params *execution.Params, remaining uint32) Rows {
	run.plan.observe(len(run.buf.b))
	rows := Rows{Count: run.count, Values: run.buf.b, Buffer: run.buf}
	// The caller owns the buffer and releases it.
	run.buf = nil
	if run.plan.aggregates() {
		switch where := run.plan.where; {
		case !where.KeyNamed:
			r.Warn("Aggregation query used without partition key")
		case where.KeyLists:
			r.Warn("Aggregation query used on multiple partition keys (IN restriction)")
		}
	}
	// The tombstones of all commands of the request count, not only the last command's.
	if r.Cost.Tombstones > tombstonesWarn {
		r.Warn(tombstoneWarning(run.plan.table, &r.Cost))
	}
	left := uint32(0)
	if remaining > 0 {
		// left is how many rows LIMIT permits on later pages.
		left = remaining - uint32(run.count)
	}
	// Sorted and nearest rows are returned as one page, because their order has no position in the table from which
	// to continue.
	if hasNext(run) && run.plan.order == nil && run.plan.near == nil && (remaining == 0 || left > 0) &&
		params.PageSize > 0 {
		if !run.scan.More() {
			run.cursor.At.Done = true // DISTINCT skips the other rows of the partition
		}
		rows.PagingState = appendPagingState(nil, run.pagingKeys(), run.plan.table,
			&pagingState{At: run.cursor.At, Remaining: left})
	}
	return rows
}

// invalidPagingState returns the error for a state that is forged, damaged, or of another table.
func invalidPagingState() error {
	return &invalid.BadRequest{Msg: "Invalid value for the paging state"}
}

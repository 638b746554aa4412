package view

import (
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
)

// Coordinator is the part of the coordinator that a Reader uses. Each method calls done exactly once, possibly before
// it returns.
type Coordinator interface {
	Write(req *coordinator.WriteRequest, done func(error))
	Read(req *coordinator.ReadRequest, done func(page []byte, err error))
	Truncate(table *schema.Table, timeout time.Duration, done func(error))
}

// View provides snapshots of the schema.
type View interface{ Schema() *schema.Schema }

// Searcher finds rows by indexes. Search calls done exactly once, possibly before it returns.
type Searcher interface {
	Search(req *search.Request, done func(*search.Result, error))
}

// Options configures a Reader. Coordinator, View and Clock are required.
type Options struct {
	Coordinator Coordinator
	// Searcher finds the rows of views. While the index of a view is not built, or without a Searcher, its base table
	// is scanned.
	Searcher Searcher
	View     View
	Clock    env.Clock
	Limits   Limits
	Guard    *guard.Guard // ends reads that panic; nil means that panics are not recovered
}

// Reader is a Coordinator that also reads views. Reads of other tables are passed on unchanged. Its methods are safe
// for concurrent use.
type Reader struct {
	Coordinator
	o Options
}

// New returns a Reader.
func New(o Options) *Reader {
	o.Limits = o.Limits.withDefaults()
	return &Reader{Coordinator: o.Coordinator, o: o}
}

// Read reads a table or a view. A page of a view contains live rows only, and no deletions. All conditions of the
// command's filter have been evaluated on them. It returns errors of package coordinator, and context.DeadlineExceeded
// when the time ends between two requests.
func (r *Reader) Read(req *coordinator.ReadRequest, done func(page []byte, err error)) {
	now := r.o.View.Schema()
	table := now.TableByStorage(req.Command.Table)
	if table == nil || table.View == nil {
		r.Coordinator.Read(req, done)
		return
	}
	base := now.BaseOf(table)
	// A view does not outlive its base table.
	if base == nil {
		done(nil, &coordinator.UnknownTable{Table: req.Command.Table})
		return
	}
	// All pages of one read see the schema of its beginning.
	op := &readOp{
		r:        r,
		req:      req,
		base:     base,
		view:     table,
		level:    levelOf(req.Consistency),
		done:     done,
		mapper:   NewMapper(base, table),
		kept:     newKept(req.Command, r.o.Limits),
		deadline: r.o.Clock.Monotonic() + req.Timeout,
	}
	op.header.Reset()
	op.filter.Reset(req.Command.Filter, req.Command.Now)
	if r.o.Searcher != nil {
		op.source = newSearchSource(op)
	} else {
		op.source = newScanSource(op)
	}
	op.run(req.Blocks)
}

// levelOf returns the level at which the base table is read. A conditional change that was acknowledged is visible to
// reads of a majority. EACH_QUORUM and others are passed on: the coordinator refuses what reads must not have.
func levelOf(level ring.Consistency) ring.Consistency {
	//exhaustive:ignore
	switch level {
	case ring.Serial:
		return ring.Quorum
	case ring.LocalSerial:
		return ring.LocalQuorum
	}
	return level
}

// offer keeps the row of the view that a row of the base table has, if the command reads it. key and x are valid during
// the call only.
func (op *readOp) offer(key row.PartitionKey, x *row.Row) {
	cmd := op.req.Command
	op.examined++
	// The row may have changed since its index entry was written, so its present place in the view decides.
	of, ok := op.mapper.Row(&op.dst, key, x, cmd.Now)
	if !ok || !readsPartition(cmd, of) || !row.InSlices(cmd.Slices, op.dst.Clustering) {
		return
	}
	// The position is recorded even if the filter removes the row, because a page may end here.
	op.last.Key, op.last.Clustering = of, append(op.last.Clustering[:0], op.dst.Clustering...)
	if op.filter.Active() && !(op.filter.Partition(of, &op.header) && op.filter.Clustering(op.dst.Clustering) &&
		op.filter.Row(&op.dst)) {
		return
	}
	op.kept.add(of, &op.dst)
}

// readsPartition reports whether a command on a view reads a partition. Unlike a table, a view may have a partition
// with an empty key. Its token is the least one, which is in the ranges that have no other lower bound.
func readsPartition(cmd *row.ReadCommand, key row.PartitionKey) bool {
	// The usual comparison excludes the least token, which no key of a table has.
	if key.Token != ring.MinToken || cmd.SinglePartition() {
		return cmd.ReadsPartition(key)
	}
	tokens := cmd.Range.Tokens
	return (tokens.Start == ring.MinToken || tokens.Contains(key.Token)) &&
		(cmd.Range.After == nil || key.Compare(*cmd.Range.After) > 0)
}

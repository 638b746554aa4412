package view

import (
	"context"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
)

// Coordinator is the part of the coordinator that a Reader uses. Each method calls done exactly once, possibly before it returns.
type Coordinator interface {
	Write(req *coordinator.WriteRequest, done func(error))
	Read(req *coordinator.ReadRequest, done func(page []byte, err error))
	Truncate(table *schema.Table, timeout time.Duration, done func(error))
}

// Options configures a Reader. Coordinator, View and Clock are required.
type Options struct {
	Coordinator Coordinator
	View        coordinator.View
	Clock       env.Clock
	Limits      Limits
	Guard       *guard.Guard // ends reads that panic; nil means that the panic goes on
}

// Reader is a Coordinator that also reads views. Reads of other tables are passed on unchanged. Its methods are safe for concurrent
// use.
type Reader struct {
	Coordinator
	o Options
}

// New returns a Reader.
func New(o Options) *Reader {
	o.Limits = o.Limits.withDefaults()
	return &Reader{Coordinator: o.Coordinator, o: o}
}

// Read reads a table or a view. A page of a view contains live rows only, and no deletions. All conditions of the command's filter
// have been evaluated on them.
func (r *Reader) Read(req *coordinator.ReadRequest, done func(page []byte, err error)) {
	now := r.o.View.Schema()
	table := now.TableByStorage(req.Command.Table)
	if table == nil || table.View == nil {
		r.Coordinator.Read(req, done)
		return
	}
	base := now.BaseOf(table)
	if base == nil {
		done(nil, &coordinator.UnknownTable{Table: req.Command.Table})
		return
	}
	op := &scanOp{r: r, req: req, base: base, done: done, mapper: NewMapper(base, table),
		kept: newKept(req.Command, r.o.Limits), deadline: r.o.Clock.Monotonic() + req.Timeout}
	op.filter.Reset(req.Command.Filter, req.Command.Now)
	op.cursor.Command = row.ReadCommand{Table: base.StorageID, Slices: []row.Slice{row.AllRows()}, Now: req.Command.Now,
		Limits: row.Limits{Rows: uint32(r.o.Limits.BasePage)}, Cancel: req.Cancel}
	op.cursor.Tokens = ring.FullRange()
	op.header.Reset()
	op.level = req.Consistency
	//exhaustive:ignore
	switch req.Consistency { // an acknowledged conditional change is visible to reads of a majority
	case ring.Serial:
		op.level = ring.Quorum
	case ring.LocalSerial:
		op.level = ring.LocalQuorum
	}
	op.run(req.Blocks)
}

// scanOp reads a view by a scan of its base table.
type scanOp struct {
	r        *Reader
	req      *coordinator.ReadRequest
	base     *schema.Table
	level    ring.Consistency
	done     func([]byte, error)
	mapper   *Mapper
	filter   row.FilterMatcher
	kept     *kept
	deadline time.Duration
	cursor   scan.Cursor
	x, dst   row.Row
	header   row.Row // empty

	mu      sync.Mutex
	running bool // a call of run is in its loop
	ready   bool // an answer has come that the loop has not taken
	page    []byte
	err     error
}

// run sends the commands of the cursor, one after the other. Answers that come at once are consumed in its loop, and others begin
// the loop again.
func (op *scanOp) run(blocks bool) {
	var err error
	if g := op.r.o.Guard; g != nil {
		err = g.Do("view: read", func() { op.loop(blocks) })
	} else {
		op.loop(blocks)
	}
	if err != nil {
		op.finish(nil, err)
	}
}

func (op *scanOp) loop(blocks bool) {
	for op.take() {
		if err := op.req.Cancel.Err(); err != nil {
			op.finish(nil, err)
			return
		}
		left := op.deadline - op.r.o.Clock.Monotonic()
		if left <= 0 {
			op.finish(nil, context.DeadlineExceeded)
			return
		}
		cmd := new(row.ReadCommand)
		if !op.cursor.Next(cmd) {
			op.finish(op.kept.write(), nil)
			return
		}
		op.mu.Lock()
		op.running = true
		op.mu.Unlock()
		op.r.Coordinator.Read(&coordinator.ReadRequest{Command: cmd, Consistency: op.level, Timeout: left, Trace: op.req.Trace,
			Cancel: op.req.Cancel, Blocks: blocks}, op.answered)
		op.mu.Lock()
		op.running = false
		ready := op.ready
		op.mu.Unlock()
		if !ready {
			return
		}
	}
}

// answered is the event of a page of the base table. It is called once for each command.
func (op *scanOp) answered(page []byte, err error) {
	op.mu.Lock()
	op.page, op.err, op.ready = append(op.page[:0], page...), err, true
	running := op.running
	op.mu.Unlock()
	if !running {
		op.run(false)
	}
}

// take consumes the page that has come, if one has. It returns false if the read has ended.
func (op *scanOp) take() bool {
	op.mu.Lock()
	ready := op.ready
	op.ready = false
	op.mu.Unlock()
	if !ready {
		return true
	}
	if op.err != nil {
		op.finish(nil, op.err)
		return false
	}
	op.cursor.Page(op.page)
	for op.cursor.NextPartition() {
		for op.cursor.NextRow(&op.x) {
			op.offer(op.cursor.Reader.Key, &op.x)
		}
	}
	if err := op.cursor.EndPage(); err != nil {
		op.finish(nil, err)
		return false
	}
	return true
}

// offer keeps the row of the view that a row of the base table has, if the command reads it.
func (op *scanOp) offer(key row.PartitionKey, x *row.Row) {
	cmd := op.req.Command
	of, ok := op.mapper.Row(&op.dst, key, x, cmd.Now)
	if !ok || !cmd.ReadsPartition(of) || !reads(cmd.Slices, op.dst.Clustering) {
		return
	}
	if op.filter.Active() && !(op.filter.Partition(of, &op.header) && op.filter.Clustering(op.dst.Clustering) && op.filter.Row(&op.dst)) {
		return
	}
	op.kept.add(of, &op.dst)
}

func reads(slices []row.Slice, clustering []byte) bool {
	for i := range slices {
		if slices[i].Contains(clustering) {
			return true
		}
	}
	return false
}

// finish ends the read, once.
func (op *scanOp) finish(page []byte, err error) {
	op.mu.Lock()
	done := op.done
	op.done = nil
	op.mu.Unlock()
	if done != nil {
		done(page, err)
	}
}

package coordinator

import (
	"errors"
	"slices"
	"sync"
	"time"

	"cqld/coordinator/resolve"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// refused wraps the failure of a part of a range read that a replica refused because of its epoch.
type refused struct{ error }

func (r *refused) Unwrap() error { return r.error }

// rangeOp is a read of many partitions. The ring is divided into ranges with one replica set each, and every range is a
// readOp. Their pages are processed in token order. The number of concurrent readOps depends on the number of rows in
// the first pages.
type rangeOp struct {
	c        *Coordinator
	mu       sync.Mutex
	req      *ReadRequest
	table    *schema.Table
	topology *ring.Topology
	deadline time.Duration
	done     func([]byte, error)
	pieces   []ring.RangeReplicas
	pages    [][]byte // answers of ranges that are not processed yet
	started  int      // ranges requested
	taken    int      // ranges whose rows are in out
	width    int      // maximum number of concurrent ranges
	out      row.PageWriter
	counted  uint32
	endsAt   *row.Position // where a filtered piece ended, if not after its last row
	plans    int
	round    int // answers to earlier rounds are ignored
	failed   error
	cancel   *env.Cancel // cancels all ranges
	hook     env.Hook    // of the request's Cancel
}

// readRange reads a range of the ring.
func (c *Coordinator) readRange(req *ReadRequest, table *schema.Table, done func([]byte, error)) {
	op := &rangeOp{
		c: c, req: req, table: table, done: done, width: 1, out: row.NewPageWriter(nil),
		deadline: c.clock.Monotonic() + req.Timeout,
	}
	rest := req.Command.Range.Tokens
	if after := req.Command.Range.After; after != nil && after.Token > rest.Start {
		rest.Start = after.Token - 1 // other keys may have the same token
	}
	op.plan(rest)
	op.cancel = req.Cancel.Child(c.clock, op.deadline)
	if req.Cancel != nil {
		op.hook.F = op.canceled
		req.Cancel.Watch(&op.hook)
	}
	op.advance(req.Blocks)
}

// canceled is the event that the caller no longer waits for the answer.
func (op *rangeOp) canceled() {
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	op.finish(nil, env.ErrCanceled)
}

// plan divides the rest of the range by the present topology. Adjacent ranges with the same replicas are read as one.
func (op *rangeOp) plan(rest ring.Range) {
	op.plans++
	op.topology = op.c.view.Topology()
	op.pieces = op.pieces[:0]
	if op.table.Replication.Class == ring.Local {
		self := ring.ReplicaSet{Natural: []ring.NodeID{op.c.view.Self()}}
		op.pieces = append(op.pieces, ring.RangeReplicas{Range: rest, Replicas: self})
	} else {
		for _, r := range op.topology.Placement(op.table.Replication).Ranges(rest) {
			if n := len(op.pieces); n > 0 && sameReaders(&op.pieces[n-1].Replicas, &r.Replicas) {
				op.pieces[n-1].Range.End = r.Range.End
				continue
			}
			op.pieces = append(op.pieces, r)
		}
	}
	op.pages = make([][]byte, len(op.pieces))
	op.started, op.taken, op.failed = 0, 0, nil
}

// pieceBytes returns the size of the pages of ranges that are read now. Together they are not larger than what is left
// of the answer.
func (op *rangeOp) pieceBytes() uint32 {
	limit := op.req.Command.Limits.Bytes
	if limit == 0 {
		return 0
	}
	return max(1, (limit-min(limit, uint32(op.out.Len())))/uint32(op.width))
}

// tooSmall handles a row that does not fit into the page of a range, or a merge that does not fit into its part of
// the memory. If the range had a part of them, the ranges are read one after the other from there; otherwise the
// answer ends before the row, and fails if it is empty. It unlocks mu.
func (op *rangeOp) tooSmall(err error) {
	switch {
	case op.width > 1:
		op.round++
		op.width, op.started = 1, op.taken
		clear(op.pages)
		op.mu.Unlock()
		op.advance(false)
	case op.out.Len() > 0:
		op.finish(op.out.Finish(true), nil)
	default:
		op.finish(nil, err)
	}
}

// sameReaders reports whether reads of a and b ask the same nodes.
func sameReaders(a, b *ring.ReplicaSet) bool {
	return sameNodes(a.Natural, b.Natural) && sameNodes(a.Before, b.Before)
}

// sameNodes reports whether a and b contain the same nodes, in any order, because a read sorts them.
func sameNodes(a, b []ring.NodeID) bool {
	if len(a) != len(b) {
		return false
	}
	for _, n := range a {
		if !slices.Contains(b, n) {
			return false
		}
	}
	return true
}

// advance starts as many range reads as may run. blocks means that the caller's goroutine may block on the disk.
func (op *rangeOp) advance(blocks bool) {
	for {
		op.mu.Lock()
		if op.done == nil || op.failed != nil || op.started == len(op.pieces) || op.started-op.taken >= op.width {
			op.mu.Unlock()
			return
		}
		i, round := op.started, op.round
		op.started++
		cmd := *op.req.Command
		cmd.Cancel = op.cancel
		cmd.Range.Tokens = op.pieces[i].Range
		if after := cmd.Range.After; after != nil && after.Token <= cmd.Range.Tokens.Start {
			cmd.Range.After = nil
		}
		if cmd.Limits.Rows > 0 {
			cmd.Limits.Rows -= op.counted
		}
		cmd.Limits.Bytes = op.pieceBytes()
		set, memory := op.pieces[i].Replicas, op.req.Memory/op.width
		op.mu.Unlock()
		op.start(i, round, &cmd, set, memory, blocks)
	}
}

// start reads one range.
func (op *rangeOp) start(i, round int, cmd *row.ReadCommand, set ring.ReplicaSet, memory int, blocks bool) {
	r := op.c.reads.Get().(*readOp)
	part := ReadRequest{
		Command: cmd, Consistency: op.req.Consistency, Only: op.req.Only, Trace: op.req.Trace, Memory: memory,
	}
	r.prepare(&part, op.table, op.topology)
	r.set, r.deadline, r.cancel = set, op.deadline, op.cancel
	r.done = func(page []byte, err error) { op.answered(i, round, page, err) }
	r.begin(blocks)
	r.release()
}

// answered is the event of the page of a range.
func (op *rangeOp) answered(i, round int, page []byte, err error) {
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil || round != op.round {
		op.mu.Unlock()
		return
	}
	var small *row.PageTooSmall
	var memory *NeedsMemory
	if errors.As(err, &small) || errors.As(err, &memory) {
		op.tooSmall(err)
		return
	}
	if err != nil {
		op.fail(err)
		return
	}
	if len(op.pieces) == 1 && op.plans == 1 {
		op.finish(page, nil)
		return
	}
	if i > op.taken {
		op.pages[i] = slices.Clone(page) // retained until the earlier ranges are processed
		op.mu.Unlock()
		return
	}
	more := op.take(page)
	for more && op.taken < len(op.pieces) && op.pages[op.taken] != nil {
		page := op.pages[op.taken]
		op.pages[op.taken] = nil
		more = op.take(page)
	}
	switch {
	case op.failed != nil:
		op.finish(nil, op.failed)
	case !more:
		if op.endsAt != nil {
			op.finish(op.out.FinishAfter(op.endsAt), nil)
		} else {
			op.finish(op.out.Finish(true), nil)
		}
	case op.taken == len(op.pieces):
		op.finish(op.out.Finish(false), nil)
	default:
		op.widen()
		op.mu.Unlock()
		op.advance(false)
	}
}

// take appends the rows of the next range, up to the limit. It returns false if the limit is met, the page reports that
// it is not the whole range, or the answer is large enough.
func (op *rangeOp) take(page []byte) bool {
	op.taken++
	cmd := op.req.Command
	limit := cmd.Limits.Rows
	var r row.PageReader
	r.Reset(page)
	for r.NextPartition() {
		op.out.Partition(r.Key, &r.Header, r.RangeTombstones)
		live, full := uint32(0), false
		var x row.Row
		for !full && r.NextRow(&x) {
			op.out.Row(&x)
			if x.Live(cmd.Now) {
				live++
				full = limit > 0 && op.counted+live >= limit
			}
		}
		op.out.EndPartition()
		live = resolve.CountRows(live, r.Header.Live(cmd.Now), cmd)
		if op.counted += live; limit > 0 && op.counted >= limit {
			return false
		}
	}
	if err := r.Err(); err != nil {
		op.failed = err
	}
	op.endsAt = r.End()
	full := op.out.Len() >= resultBytes(cmd, op.c.limits.ResultBytes) && op.taken < len(op.pieces)
	return !r.More() && !full
}

// widen raises the number of concurrent ranges to the number that is probably needed, judging by the rows read so far,
// but at most doubles it.
func (op *rangeOp) widen() {
	wanted := len(op.pieces)
	if limit := op.req.Command.Limits.Rows; limit > 0 && op.counted > 0 {
		perPiece := (float64(op.counted) / float64(op.taken))
		wanted = int(float64(limit-op.counted)/perPiece) + 1
	}
	op.width = max(1, min(wanted, 2*op.width, op.c.limits.RangesInFlight))
}

// fail ends the read, or plans its rest again if a replica refused its part. It unlocks mu.
func (op *rangeOp) fail(err error) {
	var r *refused
	if !errors.As(err, &r) || op.plans >= op.c.limits.PlansMax || op.c.unsafe.NoReplan {
		if r != nil {
			err = r.error
		}
		op.finish(nil, err)
		return
	}
	rest := op.req.Command.Range.Tokens
	rest.Start = op.pieces[op.taken].Range.Start
	pause := ReplanPause << (op.plans - 1)
	op.round++
	op.mu.Unlock()
	op.c.counts.replans.Add(1)
	op.c.clock.After(pause, func() {
		defer op.guarded()
		op.mu.Lock()
		op.plan(rest)
		op.mu.Unlock()
		op.advance(false)
	})
}

// finish answers. It unlocks mu.
func (op *rangeOp) finish(page []byte, err error) {
	done := op.done
	op.done = nil
	op.mu.Unlock()
	op.c.ReleaseRead()
	if op.req.Cancel != nil {
		op.req.Cancel.Remove(&op.hook)
	}
	done(page, err)
	op.cancel.Cancel() // cancel the ranges, and the replicas whose answers are not needed
}

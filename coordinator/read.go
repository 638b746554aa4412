package coordinator

import (
	"errors"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Read executes the command at as many replicas as the level requires. One sends its page, the others digests. If these
// differ, all send pages; Read merges them, and writes to each replica what it lacks before it calls done. The command
// must not change until then. Serial reads of one partition are refused: package paxos executes them.
func (c *Coordinator) Read(req *ReadRequest, done func(page []byte, err error)) {
	table := c.view.Schema().TableByStorage(req.Command.Table)
	if table == nil {
		done(nil, &UnknownTable{Table: req.Command.Table})
		return
	}
	if req.Consistency.IsSerial() && req.Command.SinglePartition() {
		done(nil, errSerialRead)
		return
	}
	// Checked before the reservation, so that nothing needs to be released.
	if req.Cancel.Err() != nil {
		done(nil, env.ErrCanceled)
		return
	}
	if !req.Command.SinglePartition() {
		c.readRange(req, table, done)
		return
	}
	if err := c.ReserveRead(); err != nil {
		done(nil, err)
		return
	}
	// From here on, the operation releases the reservation when it answers.
	c.reads.Get().(*readOp).start(req, table, done)
}

// errSerialRead refuses reads that need a round of Paxos.
var errSerialRead = errors.New("coordinator: package paxos executes the serial reads of one partition")

// readOp is the shell of a read of one partition, or of one range of the ring with one replica set: it locks, steps,
// checks the invariants, unlocks, and performs the effects. Like a writeOp, it returns to the pool when no event can
// follow and no goroutine uses it.
type readOp struct {
	c        *Coordinator
	trace    Trace
	onTimer  func()
	onResume func()
	cancel   *env.Cancel // cancels the requests to replicas; nil means that nothing does
	hook     env.Hook    // of watched
	watched  *env.Cancel // the request's Cancel, if cancel is this read's own child of it

	mu         sync.Mutex
	reading    reading             // its steps hold mu
	done       func([]byte, error) // nil after it was called
	timer      env.Timer           // nil unless readTicked may follow
	watching   bool                // readCanceled may follow
	performing int                 // goroutines that use op although no answer keeps it
	panicked   bool                // the state is unknown: no event is taken
	out        []readEffect        // of the step that runs; its memory is reused
}

// newReadOp returns an operation for the pool.
func newReadOp(c *Coordinator) *readOp {
	op := &readOp{c: c}
	op.reading.c = c
	// Allocated once for all requests that use the operation.
	op.onTimer = func() { op.deliver(&readEvent{kind: readTicked}, false) }
	op.onResume = func() { op.deliver(&readEvent{kind: readResumed}, false) }
	op.hook.F = func() { op.deliver(&readEvent{kind: readCanceled}, false) }
	return op
}

// start begins a read of one partition that was admitted.
func (op *readOp) start(req *ReadRequest, table *schema.Table, done func([]byte, error)) {
	c, r := op.c, &op.reading
	op.prepare(req, true, done)
	if c.guard != nil {
		// The code before the first event may panic as well.
		defer op.recovered(new(readDuties))
	}
	r.reset(req, table, c.view.Topology())
	if OnlySelf(r.self, r.topology, table, req.Command.Key.Token) &&
		r.level.BlockFor(table.Replication, c.localDC) <= 1 {
		// Only this node is read: its answer is the result, so neither clock nor timer is needed.
		r.deadline = 0
		r.set = ring.ReplicaSet{Natural: append(r.natural[:0], r.self)}
	} else {
		r.deadline = c.clock.Monotonic() + req.Timeout
		r.set = c.replicasOf(r.topology, table, req.Command.Key.Token)
	}
	if req.Cancel == nil || op.endsHere(req) {
		op.deliverBegun(req.Blocks)
		return
	}
	// A child Cancel lets the read cancel its requests to replicas without canceling the caller's other work.
	op.cancel = req.Cancel.Child(c.clock, r.deadline)
	op.watched, op.watching = req.Cancel, true
	op.performing = 1 // readCanceled may come before the first event
	op.watched.Watch(&op.hook)
	op.deliverBegun(req.Blocks)
	if op.performed(false) {
		op.recycle()
	}
}

// prepare resets op for a request. whole means that the read is not a part of a range read.
func (op *readOp) prepare(req *ReadRequest, whole bool, done func([]byte, error)) {
	op.trace, op.done, op.cancel, op.watched = req.Trace, done, nil, nil
	op.watching, op.performing, op.panicked = false, 0, false
	op.reading.whole, op.reading.over = whole, false
}

// deliverBegun delivers the first event. blocks means that the caller's goroutine may block on the disk.
func (op *readOp) deliverBegun(blocks bool) {
	op.deliver(&readEvent{kind: readBegun}, blocks)
}

// endsHere reports whether the read consists of one request to this node that is executed in the caller's goroutine and
// ends with the Cancel of req: then there is nothing else to cancel.
func (op *readOp) endsHere(req *ReadRequest) bool {
	if op.reading.deadline != 0 || !req.Blocks || req.Command.Cancel != req.Cancel {
		// Requests to other nodes, or in a worker, must be canceled there.
		return false
	}
	_, ok := op.c.replica(op.reading.self, op.trace).(Blocking)
	return ok
}

// deliver takes an event, and performs its effects.
func (op *readOp) deliver(ev *readEvent, blocks bool) {
	var d readDuties
	if op.c.guard != nil {
		defer op.recovered(&d)
	}
	switch t := ev.target; {
	case t == nil && op.reading.deadline > 0, t != nil && (t.node != op.reading.self || ev.err != nil):
		// Latencies of this node are not recorded, and reading the clock would cost as much as the step.
		ev.now = op.c.clock.Monotonic()
	}
	var backing [readEffects]readEffect
	// The step has released the lock: effects may call back, and answers may arrive meanwhile.
	if out := op.step(ev, backing[:0], &d); len(out) > 0 {
		op.perform(out, &d, blocks)
	}
	if d.holds {
		// performed is called after the effects, because until then this goroutine uses op.
		d.ends = op.performed(ev.kind == readBegun)
	}
	if d.ends {
		op.recycle()
	}
}

// readEffects is the number of effects of a step that need no allocation: requests to three replicas, and one more.
const readEffects = 4

// readDuties are what the goroutine of a step needs for its effects. They are copied under the lock.
type readDuties struct {
	round   int
	epoch   uint64
	cmd     *row.ReadCommand
	timeout time.Duration
	done    func([]byte, error) // of readReply
	page    []byte              // of readReply
	err     error               // of readReply
	kept    []*[]byte           // of readReply: released after done
	watched *env.Cancel         // of readReply
	whole   bool                // of readReply
	holds   bool                // op is kept until performed was called
	ends    bool                // no event can follow
}

// step is the critical section of an event. The timer is stopped in it, because that does not call back.
func (op *readOp) step(ev *readEvent, out []readEffect, d *readDuties) []readEffect {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.panicked {
		return nil
	}
	r := &op.reading
	switch ev.kind {
	// The timer has fired, so there is none to stop.
	case readTicked:
		op.timer = nil
	case readCanceled:
		op.watching = false
	case readPaged, readDigested:
		// Late answers are recorded, too: otherwise a slow node would never be detected.
		if t := ev.target; t.node != r.self {
			op.c.peers.Record(t.node, ev.now-t.sent, ev.now)
		}
	}
	op.out = r.step(ev, op.out[:0])
	r.checkInvariants()
	// These are copied, because the machine may be in another round when the effects are performed.
	d.round, d.cmd, d.epoch = r.round, r.asked, r.topology.Epoch()
	// After the first requests, performed sets the timer.
	d.holds = ev.kind == readBegun && r.deadline > 0 || op.trace != nil
	var now time.Duration
	for i := range op.out {
		switch e := &op.out[i]; e.kind {
		case readAsk:
			// The clock is read once for all requests of the step.
			if now == 0 && r.deadline > 0 {
				now = op.c.clock.Monotonic()
				d.timeout = max(r.deadline-now, time.Millisecond)
			}
			e.target.sent = now
		// A repair is a write: a replica has the whole timeout for it, even if the read ends earlier.
		case readRepair:
			d.timeout = op.c.changeTimeout(r.started, r.deadline)
		case readArm:
			op.timer = op.c.clock.After(e.after, op.onTimer)
		case readReply:
			op.concludeLocked(d)
		}
	}
	if d.holds {
		op.performing++
	}
	d.ends = op.endedLocked()
	// Appending op.out here keeps out on the stack; passed through the steps, which call each other, out would
	// escape.
	return append(out, op.out...)
}

// concludeLocked takes the result out of the machine. The caller holds mu.
func (op *readOp) concludeLocked(d *readDuties) {
	r := &op.reading
	if r.err == nil && r.remote && r.deadline > 0 {
		// Recorded before done is taken: if the clock panics, as it may in tests, recovered can still answer the
		// client.
		op.c.tables.Record(r.table, op.c.clock.Monotonic()-r.started)
	}
	d.done, d.page, d.err, d.kept, d.watched, d.whole = op.done, r.page, r.err, r.kept, op.watched, r.whole
	op.done, r.page, r.kept = nil, nil, nil
	d.holds = d.holds || op.watched != nil
	if op.timer != nil && op.timer.Stop() {
		op.timer = nil
	}
}

// endedLocked reports whether no event can follow and no goroutine needs op. The caller holds mu.
func (op *readOp) endedLocked() bool {
	// Each of these may still lead to an event, which must not find another request in op.
	return op.timer == nil && !op.watching && op.performing == 0 && op.reading.idle()
}

// performed notes that a goroutine that holds op has performed its effects, and reports whether op has ended. After the
// first requests, it sets the timer if the answer has not arrived yet: if only this node was asked, it usually has.
func (op *readOp) performed(first bool) (ends bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.performing--
	if op.panicked {
		// After a panic, op is left to the garbage collector.
		return false
	}
	if r := &op.reading; first && !r.over {
		op.timer = op.c.clock.After(r.untilTick(), op.onTimer)
	}
	return op.endedLocked()
}

// recycle returns op to the pool. No other reference to it exists.
func (op *readOp) recycle() {
	// Otherwise the pool would keep the request's memory.
	op.reading.clear()
	op.trace, op.cancel, op.watched = nil, nil, nil
	op.c.reads.Put(op)
}

// recovered is deferred by events. After a panic, the state of the machine is unknown: the read ends with an error, and
// op is never used again. d has the client's callback if the panic came before it was called.
func (op *readOp) recovered(d *readDuties) {
	p := recover()
	if p == nil {
		return
	}
	err := op.c.guard.Caught("coordinator read", p)
	op.mu.Lock()
	done, timer, watching := op.done, op.timer, op.watching
	// From now on, steps do nothing, and op is not returned to the pool.
	op.done, op.timer, op.watching, op.panicked = nil, nil, false, true
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	if watching {
		op.watched.Remove(&op.hook)
	}
	if done == nil {
		// The step had taken the callback, and panicked before calling it.
		done = d.done
	}
	if done == nil {
		return
	}
	// A part of a range read has no reservation of its own.
	if op.reading.whole {
		op.c.ReleaseRead()
	}
	done(nil, err)
	if watching {
		// The answers of outstanding requests would be ignored.
		op.cancel.Cancel()
	}
}

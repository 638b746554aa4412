package coordinator

import (
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// rangeOp is a read of many partitions: the shell of a ranging. It locks, steps, checks the invariants, unlocks, and
// performs the effects.
type rangeOp struct {
	c        *Coordinator
	req      *ReadRequest
	deadline time.Duration // monotonic
	cancel   *env.Cancel   // cancels all pieces
	hook     env.Hook      // of the request's Cancel

	mu      sync.Mutex
	ranging ranging             // its steps hold mu
	done    func([]byte, error) // nil after it was called
}

// rangeEvent is an input of a ranging.
type rangeEvent struct {
	kind  rangeEventKind
	piece int    // rangeAnswered
	round int    // rangeAnswered
	page  []byte // rangeAnswered; valid until the effect of the step was performed
	err   error  // rangeAnswered
}

type rangeEventKind uint8

const (
	rangeBegun    rangeEventKind = iota
	rangeStarted                 // rangeStart was performed
	rangeAnswered                // a piece has its page, or has failed
	rangeResumed                 // the pause has ended
)

// rangeEffect is the output of a ranging. A step has at most one.
type rangeEffect struct {
	kind  rangeEffectKind
	start rangePiece    // rangeStart
	after time.Duration // rangePause
	page  []byte        // rangeFinish
	err   error         // rangeFinish
}

type rangeEffectKind uint8

const (
	rangeNothing rangeEffectKind = iota
	rangeStart                   // read a piece; rangeStarted follows, because others may run at the same time
	rangePause                   // wait for a newer topology
	rangeFinish                  // answer the client
)

// rangePiece is the read of one piece.
type rangePiece struct {
	piece    int
	round    int
	cmd      *row.ReadCommand
	set      ring.ReplicaSet
	topology *ring.Topology
	memory   int
}

// readRange reads a range of the ring.
func (c *Coordinator) readRange(req *ReadRequest, table *schema.Table, done func([]byte, error)) {
	op := &rangeOp{c: c, req: req, done: done, deadline: c.clock.Monotonic() + req.Timeout}
	op.cancel = req.Cancel.Child(c.clock, op.deadline)
	op.ranging = ranging{c: c, req: req, table: table, cancel: op.cancel, width: 1, out: row.NewPageWriter(nil)}
	// The reservation is the last step, because after a panic only events release it.
	if err := c.ReserveRead(); err != nil {
		done(nil, err)
		return
	}
	if req.Cancel != nil {
		op.hook.F = op.canceled
		req.Cancel.Watch(&op.hook)
	}
	// A cancellation may have ended the read already; the machine is then over.
	op.deliver(&rangeEvent{kind: rangeBegun}, req.Blocks)
}

// canceled ends the read when the caller no longer waits for the answer.
func (op *rangeOp) canceled() {
	defer op.c.guard.Recover("coordinator range read", nil)
	// The cancellation bypasses the machine: after finish, the machine ignores all events.
	op.finish(nil, env.ErrCanceled)
}

// deliver takes an event, and performs its effect. blocks means that the caller's goroutine may block on the disk.
func (op *rangeOp) deliver(ev *rangeEvent, blocks bool) {
	defer op.c.guard.Recover("coordinator range read", func(err error) { op.finish(nil, err) })
	e := op.step(ev)
	// A loop replaces recursion, because hundreds of pieces of a range may answer synchronously.
	for e.kind == rangeStart {
		op.start(&e.start, blocks)
		e = op.step(&rangeEvent{kind: rangeStarted})
	}
	switch e.kind {
	case rangeFinish:
		op.finish(e.page, e.err)
	case rangePause:
		op.c.counts.replans.Add(1)
		op.c.clock.After(e.after, func() { op.deliver(&rangeEvent{kind: rangeResumed}, false) })
	case rangeNothing, rangeStart:
	}
}

// step is the critical section of an event.
func (op *rangeOp) step(ev *rangeEvent) rangeEffect {
	op.mu.Lock()
	defer op.mu.Unlock()
	e := op.ranging.step(ev)
	op.ranging.checkInvariants()
	return e
}

// start reads one piece.
func (op *rangeOp) start(p *rangePiece, blocks bool) {
	r := op.c.reads.Get().(*readOp)
	part := ReadRequest{
		Command:     p.cmd,
		Consistency: op.req.Consistency,
		Only:        op.req.Only,
		Trace:       op.req.Trace,
		Memory:      p.memory,
	}
	piece, round := p.piece, p.round
	r.prepare(&part, false, func(page []byte, err error) {
		op.deliver(&rangeEvent{kind: rangeAnswered, piece: piece, round: round, page: page, err: err}, false)
	})
	r.reading.reset(&part, op.ranging.table, p.topology)
	// The pieces share the deadline and the Cancel of the whole read.
	r.reading.set, r.reading.deadline, r.cancel = p.set, op.deadline, op.cancel
	r.deliverBegun(blocks)
}

// finish answers the client unless the client was answered already. Later events have no effect.
func (op *rangeOp) finish(page []byte, err error) {
	op.mu.Lock()
	done := op.done
	op.done, op.ranging.over = nil, true
	op.mu.Unlock()
	// A cancellation and the answer may race; the first one takes done.
	if done == nil {
		return
	}
	op.c.ReleaseRead()
	if op.req.Cancel != nil {
		op.req.Cancel.Remove(&op.hook)
	}
	done(page, err)
	op.cancel.Cancel() // stops the other pieces, and replicas whose answers are not needed
}

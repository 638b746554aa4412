package coordinator

import (
	"errors"
	"slices"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// batchOp stores one logged batch on its holders before the batch is written. A node that leaves the ring also
// uses it, to give the batches that it holds to others.
//
//	ask need holders ──▶ need have it ──▶ write
//	     ▲      │ a holder fails, or is late ──▶ ask the next live candidate too
//	     └──────┘ no candidate is left ──▶ ask again those that gave no answer
//
// Two holders store the batch, or all live candidates when fewer than two live.
type batchOp struct {
	c        *Coordinator
	req      WriteRequest
	id       RequestID
	encoded  []byte
	deadline time.Duration
	size     int64
	handed   bool // this node kept it, and leaves; nothing is reserved

	mu         sync.Mutex
	timer      env.Timer
	done       func(error)    // nil once called, or once the batch is kept
	candidates []*batchHolder // in the order in which they are asked
	need       int
}

// batchHolder is a node that may store the batch.
type batchHolder struct {
	node      ring.NodeID
	state     batchHolderState
	asked     time.Duration // monotonic: when it was asked last
	spared    bool          // another was asked because this one is late
	uncertain bool          // an answer was lost: it may have the batch
	err       error         // of batchHolderSilent and batchHolderRefused
}

// batchHolderState is what is known of a candidate.
type batchHolderState uint8

const (
	batchHolderSpare   batchHolderState = iota // not asked
	batchHolderAsked                           // no outcome yet
	batchHolderHas                             // the batch is on its disk
	batchHolderSilent                          // unreachable, or the answer was lost: it may be asked again
	batchHolderRefused                         // it answered that it does not store the batch
)

// choose lists who may hold the batch: other live nodes of this data center, of other racks first.
// A node that is alone there holds its batches itself, and so does one that need not reach anybody; or,
// when it leaves the ring, those of other data centers do.
func (op *batchOp) choose() error {
	c, t := op.c, op.c.view.Topology()
	self := c.view.Self()
	rack, others := "", 0
	if n := t.Node(self); n != nil {
		rack = n.Rack
	}
	var far, near, distant []ring.NodeID
	nodes := t.Nodes()
	for i := range nodes {
		// Every batch begins elsewhere, so that the load is spread.
		n := nodes[(i+int(op.id.Sequence%uint64(len(nodes))))%len(nodes)]
		if n.ID == self || n.State != ring.Normal {
			continue
		}
		if n.Datacenter != c.localDC {
			if c.view.Alive(n.ID) {
				distant = append(distant, n.ID)
			}
			continue
		}
		others++
		switch {
		case !c.view.Alive(n.ID):
		case n.Rack == rack:
			near = append(near, n.ID)
		case len(far) > 0 && t.Node(far[0]).Rack == n.Rack:
			far = append(far, n.ID)
		default: // a rack that is not the first one's comes second
			far = append(far, n.ID)
			if last := len(far) - 1; last > 1 && t.Node(far[1]).Rack == t.Node(far[0]).Rack {
				far[1], far[last] = far[last], far[1]
			}
		}
	}
	found := append(far, near...)
	switch {
	case len(found) > 0:
	case !c.stays():
		found = distant
	case others == 0 || op.req.Consistency == ring.Any:
		found = []ring.NodeID{self}
	}
	for _, n := range found {
		op.candidates = append(op.candidates, &batchHolder{node: n})
	}
	if op.need = min(2, len(op.candidates)); op.need == 0 {
		c.counts.unavailable.Add(1)
		return &Unavailable{Consistency: ring.One, Required: 1}
	}
	return nil
}

// begin asks the first candidates.
func (op *batchOp) begin() {
	op.mu.Lock()
	next := op.nextLocked()
	op.armLocked()
	op.mu.Unlock()
	op.askAll(next)
}

// armLocked schedules the next tick.
func (op *batchOp) armLocked() {
	c := op.c
	left := op.deadline - c.clock.Monotonic()
	op.timer = c.clock.After(max(min(left, c.limits.BatchSpare), 0), op.tick)
}

// nextLocked marks as asked the candidates that are to be asked now: so many that need have the batch if all
// those answer that are not late.
func (op *batchOp) nextLocked() (next []*batchHolder) {
	now := op.c.clock.Monotonic()
	missing := op.need
	for _, h := range op.candidates {
		if h.state == batchHolderHas || h.state == batchHolderAsked && !h.spared {
			missing--
		}
	}
	for _, h := range op.candidates {
		if missing > 0 && h.state == batchHolderSpare && op.aliveNow(h.node) {
			h.state, h.asked = batchHolderAsked, now
			next = append(next, h)
			missing--
		}
	}
	return next
}

func (op *batchOp) aliveNow(node ring.NodeID) bool {
	return node == op.c.view.Self() || op.c.view.Alive(node)
}

func (op *batchOp) askAll(holders []*batchHolder) {
	for _, h := range holders {
		op.ask(h)
	}
}

func (op *batchOp) ask(h *batchHolder) {
	c := op.c
	traceNode(op.req.Trace, c.view.Self(), "Storing batch log on", h.node)
	done := func(err error) { op.kept(h, err) }
	if h.node == c.view.Self() {
		c.KeepBatch(op.id, op.encoded, done)
		return
	}
	holder, ok := c.replica(h.node, op.req.Trace).(BatchHolder)
	if !ok {
		done(&ReplicaFailure{Message: "the replica keeps no batches"})
		return
	}
	holder.KeepBatch(op.id, op.encoded, c.remaining(op.deadline), done)
}

// kept is the event of a holder's answer.
func (op *batchOp) kept(h *batchHolder, err error) {
	defer op.guarded()
	op.mu.Lock()
	switch {
	case op.done == nil || h.state == batchHolderHas:
		op.mu.Unlock()
		return
	case err == nil:
		h.state = batchHolderHas
	default:
		h.err, h.state = err, batchHolderRefused
		if batchMayRetry(err) {
			h.state = batchHolderSilent
		}
		h.uncertain = h.uncertain || !errors.Is(err, ErrNotSent)
	}
	op.proceedLocked()
}

// batchMayRetry says whether a holder that failed so may store the batch a moment later: it was out of reach, or its
// answer was lost. What an overloaded or a failing holder answers is final.
func batchMayRetry(err error) bool {
	var overloaded *Overloaded
	return errors.Is(err, ErrNoReply) || errors.Is(err, ErrNotSent) && !errors.As(err, &overloaded)
}

// tick is the event of the timer: late holders get a substitute, silent ones are asked again, and nodes may have
// died since the last look.
func (op *batchOp) tick() {
	defer op.guarded()
	c := op.c
	op.mu.Lock()
	now := c.clock.Monotonic()
	switch {
	case op.done == nil:
		op.mu.Unlock()
		return
	case now >= op.deadline && op.uncertainLocked():
		op.failLocked()
		return
	case now >= op.deadline:
		op.refuseLocked(nil)
		return
	}
	spare := false
	for _, h := range op.candidates {
		late := h.state == batchHolderAsked && (now-h.asked >= c.limits.BatchSpare || !op.aliveNow(h.node))
		h.spared = h.spared || late
		spare = spare || h.state == batchHolderSpare && op.aliveNow(h.node)
	}
	for _, h := range op.candidates {
		if h.state == batchHolderSilent && !spare && op.aliveNow(h.node) {
			h.state, h.spared = batchHolderSpare, false
		}
	}
	op.armLocked()
	op.proceedLocked()
}

// proceedLocked judges what is known, and asks the candidates that are to be asked now. It frees mu.
func (op *batchOp) proceedLocked() {
	next := op.nextLocked()
	has, open, blocked := 0, 0, 0
	var refusal error
	for _, h := range op.candidates {
		alive := op.aliveNow(h.node)
		switch {
		case h.state == batchHolderHas:
			has++
		case h.state == batchHolderRefused:
			refusal = h.err
			if alive {
				blocked++
			}
		case alive:
			open++
		}
	}
	switch {
	case has < op.need && (has == 0 || open+blocked > 0): // not enough; one is, when no other candidate lives
		switch {
		case open > 0:
			op.mu.Unlock()
			op.askAll(next)
		case op.uncertainLocked():
			op.failLocked()
		default:
			op.refuseLocked(refusal)
		}
	case op.handed:
		op.concludeLocked(nil)
	default:
		op.writeLocked()
	}
}

// uncertainLocked says whether a candidate has the batch, or may have it.
func (op *batchOp) uncertainLocked() bool {
	return slices.ContainsFunc(op.candidates, (*batchHolder).mayHave)
}

func (h *batchHolder) mayHave() bool {
	return h.uncertain || h.state == batchHolderHas || h.state == batchHolderAsked
}

// refuseLocked answers that certainly no node keeps the batch. It frees mu.
func (op *batchOp) refuseLocked(err error) {
	var overloaded *Overloaded
	if !errors.As(err, &overloaded) {
		op.c.counts.unavailable.Add(1)
		err = &Unavailable{Consistency: ring.One, Required: 1}
	}
	op.concludeLocked(err)
}

// failLocked answers that the batch is not kept by as many as must; one may, and will apply it. It
// frees mu.
func (op *batchOp) failLocked() {
	op.c.counts.writeTimeouts.Add(1)
	level := ring.Two
	if op.need == 1 {
		level = ring.One
	}
	received := 0
	for _, h := range op.candidates {
		if h.state == batchHolderHas {
			received++
		}
	}
	op.concludeLocked(&WriteTimeout{Consistency: level, Received: received, BlockFor: op.need, Type: WriteBatchLog})
}

// concludeLocked answers the client; it frees mu.
func (op *batchOp) concludeLocked(err error) { op.endLocked()(err) }

// endLocked ends the keeping; what is left is to call what it gives. It frees mu.
func (op *batchOp) endLocked() (done func(error)) {
	done, timer := op.done, op.timer
	op.done = nil
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	if !op.handed {
		op.c.giveBack(op.size)
	}
	return done
}

// writeLocked writes a batch that is kept. It frees mu.
func (op *batchOp) writeLocked() {
	c, id := op.c, op.id
	var holders []ring.NodeID // that have the batch, or may get it yet
	for _, h := range op.candidates {
		if h.mayHave() {
			holders = append(holders, h.node)
		}
	}
	done := op.endLocked()
	op.encoded = nil
	c.handOver("coordinator batch log", done, func(done func(error)) {
		req := op.req
		req.Type, req.Timeout = WriteBatch, c.remaining(op.deadline)
		req.settled = func(secured bool) {
			if secured {
				c.batchlog.release(id, holders)
			}
		}
		c.Write(&req, func(err error) {
			if errors.Is(err, ErrNotSent) { // by this node, but it is kept
				c.counts.writeTimeouts.Add(1)
				err = &WriteTimeout{Consistency: req.Consistency, BlockFor: 1, Type: WriteBatch}
			}
			done(err)
		})
	})
}

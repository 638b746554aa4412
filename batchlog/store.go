package batchlog

import (
	"errors"
	"slices"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
)

// storeOp stores one logged batch on its holders before the batch is written. A node that leaves the ring uses it, too,
// to hand over the batches that it holds.
//
//	ask need holders ──▶ need have it ──▶ write
//	     ▲      │ a holder fails, or is late ──▶ ask the next live candidate too
//	     └──────┘ no candidate is left ──▶ ask again those that gave no answer
//
// Two holders store the batch, or all live candidates when fewer than two live.
type storeOp struct {
	l        *Log
	req      coordinator.WriteRequest
	id       coordinator.RequestID
	encoded  []byte
	deadline time.Duration
	size     int64
	handed   bool // this node stores the batch and leaves the ring; nothing is reserved, and done waits for all answers

	mu         sync.Mutex
	timer      env.Timer
	done       func(error) // nil after it was called, or after the batch was stored
	candidates []*holder   // in the order in which they are asked
	need       int
	open       int    // requests without an answer
	settled    func() // of handed: called when no answer is outstanding
}

// holder is a node that may store the batch.
type holder struct {
	node        ring.NodeID
	state       holderState
	requestedAt time.Duration // monotonic: when it was asked last
	spared      bool          // a further node was asked because this one is late
	uncertain   bool          // an answer was lost: it may have the batch
	err         error         // of holderSilent and holderRefused
}

// holderState is the state of a candidate.
type holderState uint8

const (
	holderSpare   holderState = iota // not asked
	holderPending                    // no outcome yet
	holderHas                        // the batch is on its disk
	holderSilent                     // unreachable, or the answer was lost: it may be asked again
	holderRefused                    // it answered that it does not store the batch
)

// choose lists the nodes that may hold the batch: other live nodes of this data center, those of other racks first. A
// node that is alone in its data center holds its batches itself, and so does one that writes at ANY. If it leaves the
// ring, nodes of other data centers hold them.
func (op *storeOp) choose() error {
	l, t := op.l, op.l.view.Topology()
	self := l.view.Self()
	rack, others := "", 0
	if n := t.Node(self); n != nil {
		rack = n.Rack
	}
	var far, near, distant []ring.NodeID
	nodes := t.Nodes()
	for i := range nodes {
		// Every batch starts at a different node, to spread the load.
		n := nodes[(i+int(op.id.Sequence%uint64(len(nodes))))%len(nodes)]
		if n.ID == self || n.State != ring.Normal {
			continue
		}
		if n.Datacenter != l.localDC {
			if l.view.Alive(n.ID) {
				distant = append(distant, n.ID)
			}
			continue
		}
		others++
		switch {
		case !l.view.Alive(n.ID):
		case n.Rack == rack:
			near = append(near, n.ID)
		case len(far) > 0 && t.Node(far[0]).Rack == n.Rack:
			far = append(far, n.ID)
		default: // a different rack than that of the first is preferred for the second
			far = append(far, n.ID)
			if last := len(far) - 1; last > 1 && t.Node(far[1]).Rack == t.Node(far[0]).Rack {
				far[1], far[last] = far[last], far[1]
			}
		}
	}
	found := append(far, near...)
	switch {
	case len(found) > 0:
	case !l.stays():
		found = distant
	case others == 0 || op.req.Consistency == ring.Any:
		found = []ring.NodeID{self}
	}
	for _, n := range found {
		op.candidates = append(op.candidates, &holder{node: n})
	}
	if op.need = min(2, len(op.candidates)); op.need == 0 {
		l.c.Note(coordinator.EventUnavailable)
		return &coordinator.Unavailable{Consistency: ring.One, Required: 1}
	}
	return nil
}

// begin asks the first candidates.
func (op *storeOp) begin() {
	op.mu.Lock()
	next := op.nextLocked()
	op.armLocked()
	op.mu.Unlock()
	op.askAll(next)
}

// armLocked schedules the next tick.
func (op *storeOp) armLocked() {
	l := op.l
	left := op.deadline - l.clock.Monotonic()
	op.timer = l.clock.After(max(min(left, l.limits.Spare), 0), op.tick)
}

// nextLocked returns the candidates to ask now and marks them as asked: as many as are needed if all candidates that
// are not late answer.
func (op *storeOp) nextLocked() (next []*holder) {
	now := op.l.clock.Monotonic()
	missing := op.need
	for _, h := range op.candidates {
		if h.state == holderHas || h.state == holderPending && !h.spared {
			missing--
		}
	}
	for _, h := range op.candidates {
		if missing > 0 && h.state == holderSpare && op.aliveNow(h.node) {
			h.state, h.requestedAt = holderPending, now
			next = append(next, h)
			missing--
		}
	}
	return next
}

func (op *storeOp) aliveNow(node ring.NodeID) bool {
	return node == op.l.view.Self() || op.l.view.Alive(node)
}

func (op *storeOp) askAll(holders []*holder) {
	for _, h := range holders {
		op.ask(h)
	}
}

func (op *storeOp) ask(h *holder) {
	l := op.l
	coordinator.AddNodeTrace(op.req.Trace, l.view.Self(), "Storing batch log on", h.node)
	generation := l.c.BeginSending() // no holder receives the batch after a truncation that begins later
	op.mu.Lock()
	op.open++
	op.mu.Unlock()
	done := func(err error) {
		op.kept(h, err)
		l.c.EndSending(generation)
		op.answered()
	}
	if h.node == l.view.Self() {
		l.Keep(op.id, op.encoded, done)
		return
	}
	l.holders.Keep(h.node, op.req.Trace, op.id, op.encoded, l.c.Remaining(op.deadline), done)
}

// kept is the event of a holder's answer.
func (op *storeOp) kept(h *holder, err error) {
	defer op.guarded()
	op.mu.Lock()
	switch {
	case op.done == nil || h.state == holderHas:
		op.mu.Unlock()
		return
	case err == nil:
		h.state = holderHas
	default:
		h.err, h.state = err, holderRefused
		if mayRetry(err) {
			h.state = holderSilent
		}
		h.uncertain = h.uncertain || !errors.Is(err, coordinator.ErrNotSent)
	}
	op.proceedLocked()
}

// answered is the event that a request has ended, after kept.
func (op *storeOp) answered() {
	op.mu.Lock()
	var settled func()
	if op.open--; op.open == 0 {
		settled, op.settled = op.settled, nil
	}
	op.mu.Unlock()
	if settled != nil {
		settled()
	}
}

// mayRetry reports whether a holder that failed with err may be asked again: it was unreachable, or its answer was
// lost. An overloaded or failing holder is not asked again.
func mayRetry(err error) bool {
	var overloaded *coordinator.Overloaded
	return errors.Is(err, coordinator.ErrNoReply) || errors.Is(err, coordinator.ErrNotSent) &&
		!errors.As(err, &overloaded)
}

// tick is the event of the timer: it replaces late holders, asks those again that did not answer, and checks which
// nodes have died.
func (op *storeOp) tick() {
	defer op.guarded()
	l := op.l
	op.mu.Lock()
	now := l.clock.Monotonic()
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
		late := h.state == holderPending && (now-h.requestedAt >= l.limits.Spare || !op.aliveNow(h.node))
		h.spared = h.spared || late
		spare = spare || h.state == holderSpare && op.aliveNow(h.node)
	}
	for _, h := range op.candidates {
		if h.state == holderSilent && !spare && op.aliveNow(h.node) {
			h.state, h.spared = holderSpare, false
		}
	}
	op.armLocked()
	op.proceedLocked()
}

// proceedLocked decides on the states of the candidates, and asks the next candidates. It unlocks mu.
func (op *storeOp) proceedLocked() {
	next := op.nextLocked()
	has, open, blocked := 0, 0, 0
	var refusal error
	for _, h := range op.candidates {
		alive := op.aliveNow(h.node)
		switch {
		case h.state == holderHas:
			has++
		case h.state == holderRefused:
			refusal = h.err
			if alive {
				blocked++
			}
		case alive:
			open++
		}
	}
	switch {
	case has < op.need && (has == 0 || open+blocked > 0): // not enough; one suffices if no other candidate is alive
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

// uncertainLocked reports whether a candidate has the batch, or may have it.
func (op *storeOp) uncertainLocked() bool {
	return slices.ContainsFunc(op.candidates, (*holder).mayHave)
}

func (h *holder) mayHave() bool {
	return h.uncertain || h.state == holderHas || h.state == holderPending
}

// refuseLocked ends the operation when certainly no node stores the batch. It unlocks mu.
func (op *storeOp) refuseLocked(err error) {
	var overloaded *coordinator.Overloaded
	if !errors.As(err, &overloaded) {
		op.l.c.Note(coordinator.EventUnavailable)
		err = &coordinator.Unavailable{Consistency: ring.One, Required: 1}
	}
	op.concludeLocked(err)
}

// failLocked ends the operation with a timeout: too few nodes store the batch, but those that do will apply it. It
// unlocks mu.
func (op *storeOp) failLocked() {
	op.l.c.Note(coordinator.EventWriteTimeout)
	level := ring.Two
	if op.need == 1 {
		level = ring.One
	}
	received := 0
	for _, h := range op.candidates {
		if h.state == holderHas {
			received++
		}
	}
	op.concludeLocked(&coordinator.WriteTimeout{Consistency: level, Received: received, BlockFor: op.need,
		Type: coordinator.WriteBatchLog})
}

// concludeLocked answers the client. It unlocks mu.
func (op *storeOp) concludeLocked(err error) {
	if done := op.done; op.handed && op.open > 0 {
		op.settled = func() { done(err) }
		op.endLocked()
		return
	}
	op.endLocked()(err)
}

// endLocked ends the operation and returns its done, which the caller calls. It unlocks mu.
func (op *storeOp) endLocked() (done func(error)) {
	done, timer := op.done, op.timer
	op.done = nil
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	if !op.handed {
		op.l.c.Release(op.size)
	}
	return done
}

// writeLocked writes a batch that is stored. It unlocks mu.
func (op *storeOp) writeLocked() {
	l, id := op.l, op.id
	var holders []ring.NodeID // nodes that have the batch, or may still receive it
	for _, h := range op.candidates {
		if h.mayHave() {
			holders = append(holders, h.node)
		}
	}
	done := op.endLocked()
	op.encoded = nil
	l.c.Continue("coordinator batch log", done, func(done func(error)) {
		req := op.req
		req.Type, req.Timeout = coordinator.WriteBatch, l.c.Remaining(op.deadline)
		req.Settled = func(s coordinator.Settlement) {
			if l.secured(s) {
				l.release(id, holders)
			}
		}
		l.c.Write(&req, func(err error) {
			if errors.Is(err, coordinator.ErrNotSent) { // not sent by this node, but the holders have stored it
				l.c.Note(coordinator.EventWriteTimeout)
				err = &coordinator.WriteTimeout{Consistency: req.Consistency, BlockFor: 1, Type: coordinator.WriteBatch}
			}
			done(err)
		})
	})
}

// guarded is deferred by the events of a storeOp. A panic ends the operation with an error. Holders that already store
// the batch apply it.
func (op *storeOp) guarded() {
	g := op.l.guard
	if g == nil {
		return
	}
	if p := recover(); p != nil {
		err := g.Caught("coordinator batch log", p)
		g.Abandon(&op.mu, func() {
			if op.done == nil {
				op.mu.Unlock()
				return
			}
			op.concludeLocked(err)
		})
	}
}

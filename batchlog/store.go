package batchlog

import (
	"errors"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
)

// storeOp stores one logged batch on its holders before the batch is written. A node that leaves the ring uses it, too,
// to hand over the batches that it holds. It is the shell of a storing: it locks, steps, checks the invariants,
// unlocks, and performs the effects.
type storeOp struct {
	l        *Log
	req      coordinator.WriteRequest
	id       coordinator.RequestID
	deadline time.Duration
	size     int64
	done     func(error) // called once
	storing  storing     // its steps hold mu

	mu sync.Mutex
	// mu guards storing and timer. Requests and callbacks run without it.
	timer env.Timer
}

// storing is the state machine of a storeOp.
//
//	ask need holders ──▶ need have it ──▶ write
//	     ▲      │ a holder fails, or is late ──▶ ask the next live candidate too
//	     └──────┘ no candidate is left ──▶ ask again those that gave no answer
//
// Two holders store the batch, or all live candidates when fewer than two live.
type storing struct {
	l        *Log // for its view, its limits and the counters of its coordinator
	deadline time.Duration
	encoded  []byte // nil after the end
	handed   bool   // this node stores the batch and leaves the ring; nothing is reserved, and the answer waits for all

	candidates []*holder // in the order in which they receive requests
	need       int
	open       int           // requests without an answer
	over       bool          // the batch is stored, or the operation has failed
	holders    []ring.NodeID // nodes that have the batch, or may still receive it; when the batch is written
	settled    bool          // of handed: over, and answers with outcome when no answer is outstanding
	outcome    error
}

// storeEvent is an input of a storing.
type storeEvent struct {
	kind   storeEventKind
	now    time.Duration // monotonic
	holder *holder       // of storeKept
	err    error         // of storeKept and storeFailed
}

type storeEventKind uint8

const (
	storeBegun    storeEventKind = iota
	storeKept                    // a holder has answered
	storeAnswered                // a request has ended, after storeKept
	storeTicked
	storeFailed // an event has panicked
)

// storeEffect is an output of a storing.
type storeEffect struct {
	kind   storeEffectKind
	holder *holder       // of effectKeep
	body   []byte        // of effectKeep: the encoded batch
	after  time.Duration // of effectArm
	err    error         // of effectAnswer
}

type storeEffectKind uint8

const (
	effectKeep   storeEffectKind = iota // ask the holder to store the batch
	effectArm                           // set the timer
	effectEnd                           // stop the timer, and release what the operation has reserved
	effectWrite                         // write the batch, which is stored
	effectAnswer                        // call done
)

// holder is a node that may store the batch.
type holder struct {
	node        ring.NodeID
	state       holderState
	requestedAt time.Duration // monotonic: the time of the last request
	spared      bool          // a request went to a further node because this one is late
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

// choose lists the nodes that may hold the batch: other live nodes of this data center, with nodes of other racks
// first. A node that is alone in its data center holds its batches itself, as does a coordinator that writes at ANY. If
// it leaves the ring, nodes of other data centers hold them.
func (op *storeOp) choose() error {
	// The choice is made once for each batch. Whether a candidate is alive is checked again before a request is sent to
	// it.
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
		// A leaving node refuses batches, and a joining one may be aborted.
		if n.ID == self || n.State != ring.Normal {
			continue
		}
		// Nodes of other data centers are used only if this node leaves and no other node of its data center is
		// alive.
		if n.Datacenter != l.localDC {
			if l.view.Alive(n.ID) {
				distant = append(distant, n.ID)
			}
			continue
		}
		others++
		switch {
		case !l.view.Alive(n.ID):
		// Nodes of this node's rack come last, because a failure of the rack would affect the batch and this node
		// together.
		case n.Rack == rack:
			near = append(near, n.ID)
		case len(far) > 0 && t.Node(far[0]).Rack == n.Rack:
			far = append(far, n.ID)
		default: // a rack other than the first one's rack is preferred for the second
			far = append(far, n.ID)
			if last := len(far) - 1; last > 1 && t.Node(far[1]).Rack == t.Node(far[0]).Rack {
				far[1], far[last] = far[last], far[1]
			}
		}
	}
	found := append(far, near...)
	switch {
	// found is in order of preference: other racks, then this node's rack.
	case len(found) > 0:
	case !l.stays():
		found = distant
	case others == 0 || op.req.Consistency == ring.Any:
		found = []ring.NodeID{self}
	}
	for _, n := range found {
		op.storing.candidates = append(op.storing.candidates, &holder{node: n})
	}
	if op.storing.need = min(2, len(op.storing.candidates)); op.storing.need == 0 {
		l.c.Note(coordinator.EventUnavailable)
		return &coordinator.Unavailable{Consistency: ring.One, Required: 1}
	}
	return nil
}

// begin asks the first candidates to store the encoded batch.
func (op *storeOp) begin(encoded []byte) {
	op.storing.l, op.storing.deadline, op.storing.encoded = op.l, op.deadline, encoded
	op.deliver(storeEvent{kind: storeBegun})
}

// deliver takes an event, and performs its effects. A panic ends the operation with an error. Holders that already
// store the batch apply it.
func (op *storeOp) deliver(ev storeEvent) {
	defer op.l.guard.Recover("coordinator batch log", op.fail)
	ev.now = op.l.clock.Monotonic()
	var backing [4]storeEffect // the timer, and a request to each of two holders
	out := op.step(ev, backing[:0])
	for i := range out {
		op.perform(&out[i])
	}
}

// fail delivers the event that another event has panicked.
func (op *storeOp) fail(err error) {
	out := op.step(storeEvent{kind: storeFailed, err: err}, nil)
	for i := range out {
		op.perform(&out[i])
	}
}

// step is the critical section of an event. It appends the effects to out, which belongs to the caller.
func (op *storeOp) step(ev storeEvent, out []storeEffect) []storeEffect {
	op.mu.Lock()
	defer op.mu.Unlock()
	out = op.storing.step(ev, out)
	// After a panic the state may break an invariant, which must not hide the panic.
	if ev.kind != storeFailed {
		op.storing.check()
	}
	return out
}

// perform performs an effect without the lock.
func (op *storeOp) perform(e *storeEffect) {
	l := op.l
	switch e.kind {
	case effectKeep:
		op.keep(e.holder, e.body)
	case effectArm:
		op.arm(e.after)
	// Late answers may still arrive; they need no reservation.
	case effectEnd:
		op.mu.Lock()
		timer := op.timer
		op.timer = nil
		op.mu.Unlock()
		// The timer is stopped without the lock, which its callback acquires.
		if timer != nil {
			timer.Stop()
		}
		// Only a client's batch has reserved memory.
		if !op.storing.handed {
			l.c.Release(op.size)
		}
	case effectWrite:
		op.write()
	case effectAnswer:
		op.done(e.err)
	}
}

// keep asks a holder to store the batch.
func (op *storeOp) keep(h *holder, encoded []byte) {
	l, self := op.l, op.l.view.Self()
	coordinator.AddNodeTrace(op.req.Trace, self, "Storing batch log on", h.node)
	generation := l.c.BeginSending() // no holder receives the batch after a truncation that begins later
	// EndSending is called between the two events: the first may begin the write, which has its own generation, and
	// the second may end a handover.
	done := func(err error) {
		op.deliver(storeEvent{kind: storeKept, holder: h, err: err})
		l.c.EndSending(generation)
		op.deliver(storeEvent{kind: storeAnswered})
	}
	if h.node == self {
		l.Keep(op.id, encoded, done)
		return
	}
	l.holders.Keep(h.node, op.req.Trace, op.id, encoded, l.c.Remaining(op.deadline), done)
}

// arm sets the timer.
func (op *storeOp) arm(after time.Duration) {
	timer := op.l.clock.After(after, func() { op.deliver(storeEvent{kind: storeTicked}) })
	op.mu.Lock()
	// The operation may have ended since the step that requested the timer.
	over := op.storing.over
	if !over {
		op.timer = timer
	}
	op.mu.Unlock()
	// The operation has ended without stopping this timer, so it is stopped here.
	if over {
		timer.Stop()
	}
}

// write writes the batch. The state of the storing does not change any longer, except for its open requests.
func (op *storeOp) write() {
	l, id, holders := op.l, op.id, op.storing.holders
	l.c.Continue("coordinator batch log", op.done, func(done func(error)) {
		req := op.req
		// The write gets the rest of the client's time. The mutations keep their timestamps.
		req.Type, req.Timeout = coordinator.WriteBatch, l.c.Remaining(op.deadline)
		req.Settled = func(s coordinator.Settlement) {
			if l.secured(s) {
				l.release(id, holders)
			}
		}
		l.c.Write(&req, func(err error) {
			// The client must not conclude that nothing will be applied.
			if errors.Is(err, coordinator.ErrNotSent) { // not sent by this node, but the holders have stored it
				l.c.Note(coordinator.EventWriteTimeout)
				err = &coordinator.WriteTimeout{Consistency: req.Consistency, BlockFor: 1, Type: coordinator.WriteBatch}
			}
			done(err)
		})
	})
}

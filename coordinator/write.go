package coordinator

import (
	"errors"
	"sync"
	"time"

	"cqld/coordinator/write"
	"cqld/internal/env"
)

// Write applies the mutations, each at its own replicas, and calls done when each is acknowledged by as many replicas
// as the level requires. It sends every live replica its mutations at once, and stores hints for replicas that are down
// or do not answer. The caller must never change the mutations again, even after done, because late hints contain
// them.
func (c *Coordinator) Write(req *WriteRequest, done func(error)) {
	if len(req.Mutations) == 0 {
		done(nil)
		if req.Settled != nil {
			// A write without mutations is complete at once.
			req.Settled(Settlement{Hinted: true, Majority: true})
		}
		return
	}
	if req.Ordered {
		c.Order(req, c.Write, done)
		return
	}
	size := WriteSize(req.Mutations...)
	if err := c.Reserve(size); err != nil {
		done(err)
		if req.Settled != nil {
			// settled always follows done. A refused write reports nothing about replicas.
			req.Settled(Settlement{})
		}
		return
	}
	c.writes.Get().(*writeOp).start(req, size, done)
}

// writeOpBytes is the approximate size of a write in progress without its mutations.
const writeOpBytes = 768

// writeOp is the shell of a write: it locks, steps, checks the invariants, unlocks, and performs the effects.
// Goroutines that deliver answers at the same time perform their effects at the same time.
//
// It returns to the pool when no event can follow and no goroutine uses it. Outstanding requests keep it in use, so a
// goroutine may access it until it has performed its last Send; after that, only the values that it has copied.
type writeOp struct {
	c          *Coordinator
	kind       WriteType
	trace      Trace
	began      time.Duration // monotonic
	since      time.Duration // monotonic: of Hints.Add
	created    int64         // ns since 1970: of Hints.Add
	generation uint64        // of Coordinator.sent
	size       int64
	sender     Sender // sends the mutation in place of Replica.Apply; may be nil
	settled    func(Settlement)
	only       *write.Target // the only replica, which is this node; nil if steps are necessary
	onTimeout  func()
	onResume   func()

	mu         sync.Mutex
	machine    write.Machine // its steps hold mu
	done       func(error)   // nil after it was called
	timer      env.Timer     // nil unless Ticked may follow
	performing int           // goroutines that use op although no answer keeps it
	panicked   bool          // the state is unknown: no event is taken
}

// newWriteOp returns an operation for the pool. Its timer callbacks are allocated once.
func newWriteOp(c *Coordinator) *writeOp {
	op := &writeOp{c: c}
	op.onTimeout = func() { op.deliver(&write.Event{Kind: write.Ticked}) }
	op.onResume = func() { op.deliver(&write.Event{Kind: write.Resumed}) }
	return op
}

// start begins a write that was admitted with size bytes.
func (op *writeOp) start(req *WriteRequest, size int64, done func(error)) {
	// From here on, a truncation waits for the write. recycle leaves the fence, or abandoned after a panic.
	op.generation = op.c.sent.Enter()
	op.kind, op.trace, op.since, op.created, op.size = req.Type, req.Trace, req.Since, req.Created, size
	op.sender, op.settled, op.done, op.only = req.Sender, req.Settled, done, nil
	op.performing, op.panicked = 0, false
	m := &op.machine
	op.began, m.Deadline = 0, req.Timeout // until the clock was read
	if op.c.guard != nil {
		// From here on, all callbacks of the operation are set, so a panic can be answered.
		defer op.recovered(new(writeDuties))
	}
	m.Reset(&op.c.writeConfig, req.Mutations, req.Consistency)
	m.Applied, m.Traced, m.Settles = req.Applied, req.Trace != nil, req.Settled != nil
	if op.local() {
		// The write needs no timer, because this node always answers.
		op.applyHere(req.Timeout)
		return
	}
	now := op.c.clock.Monotonic()
	op.began, m.Deadline = now, now+req.Timeout
	// A repeated write keeps the time at which its mutations were read (WriteRequest.Since).
	if op.since == 0 {
		op.since = now
	}
	op.deliver(&write.Event{Kind: write.Begun, Now: now})
}

// deliver takes an event, and performs its effects.
func (op *writeOp) deliver(ev *write.Event) {
	var duties writeDuties
	if op.c.guard != nil {
		defer op.recovered(&duties)
	}
	// Other events need no time, and reading the clock costs as much as their step.
	if ev.Kind == write.Resumed {
		ev.Now = op.c.clock.Monotonic()
	}
	var backing [writeEffects]write.Effect
	// The lock is free again. From here on, op may be used only while an outstanding answer, or holds, keeps it.
	if out := op.step(ev, backing[:0], &duties); len(out) > 0 {
		op.perform(out, &duties)
	}
	if duties.holds {
		duties.ends = op.performed()
	}
	if duties.ends {
		op.recycle()
	}
}

// writeEffects is the number of effects of a step that need no allocation: the timer and requests to five replicas. The
// memory is cleared for each event.
const writeEffects = 6

// writeDuties are what the goroutine of a step does besides its effects.
type writeDuties struct {
	done  func(error) // of Reply
	err   error       // of Reply
	epoch uint64      // of Send and Apply
	holds bool        // op is kept until performed was called
	ends  bool        // no event can follow
}

// step is the critical section of an event. The timer is set and stopped in it, because neither calls back.
func (op *writeOp) step(ev *write.Event, out []write.Effect, d *writeDuties) []write.Effect {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.panicked {
		return nil
	}
	m := &op.machine
	if ev.Kind == write.Ticked {
		op.timer = nil
	}
	// The effects are on the stack of deliver, so a usual write allocates none.
	out = m.Step(ev, out)
	m.Check()
	for i := range out {
		switch out[i].Kind {
		case write.Send, write.Apply:
			d.epoch = m.Topology.Epoch()
		case write.Arm:
			op.timer = op.c.clock.After(out[i].After, op.onTimeout)
		case write.Hint:
			// The effect uses the mutations after the lock was released, and at most levels no event follows a hint.
			d.holds = true
		case write.Note:
			d.holds = true
		case write.Reply:
			// done is taken under the lock, so that the client is answered exactly once.
			d.done, op.done = op.done, nil
			d.err = op.outcome(&m.Outcome)
			d.holds = d.holds || op.settled != nil // which is called after done
		}
	}
	// The client has its answer; late acknowledgements need no timer.
	if op.timer != nil && m.Decided() && op.timer.Stop() {
		op.timer = nil
	}
	if d.holds {
		op.performing++
	}
	d.ends = op.overLocked()
	return out
}

// overLocked reports whether no event can follow and no goroutine needs op. The caller holds mu.
func (op *writeOp) overLocked() bool {
	// Idle means that no answer of a replica and no hint is outstanding.
	return op.timer == nil && op.performing == 0 && op.machine.Idle()
}

// performed notes that a goroutine that holds op has performed its effects, and reports whether op is over.
func (op *writeOp) performed() bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.performing--
	// After a panic, abandoned ends the write.
	return !op.panicked && op.overLocked()
}

// recycle returns op to the pool. No answer of a replica is outstanding, so a truncation need not wait for it.
func (op *writeOp) recycle() {
	c, settled, generation := op.c, op.settled, op.generation
	// A panic in a callback below must not reach recovered: another write may use op.
	defer c.guard.Recover("coordinator write", nil)
	var s Settlement
	if settled != nil {
		s.Hinted, s.Majority = op.machine.Settled()
	}
	// The count of writes was released with the answer; the memory is in use until here.
	c.writeBytes.Add(-op.size)
	op.machine.Clear()
	op.trace, op.sender, op.settled = nil, nil, nil
	c.writes.Put(op)
	// After Put, from copies: a truncation may continue in Leave, and op may be used by another write.
	c.sent.Leave(generation)
	if settled != nil {
		// Last, because it may start the next write of a protocol.
		settled(s)
	}
}

// recovered is deferred by events. After a panic, the state of the machine is unknown: the write ends with an error,
// and op is never used again. What replicas have applied stays applied, and requests may still be on their way; none of
// them is executed after the timeout of the write, so a truncation waits until then. d has the client's callback if the
// panic came before it was called.
func (op *writeOp) recovered(d *writeDuties) {
	p := recover()
	if p == nil {
		return
	}
	err := op.c.guard.Caught("coordinator write", p)
	op.mu.Lock()
	// A second panic, of another event, must not abandon the write twice.
	done, first, timer := op.done, !op.panicked, op.timer
	op.done, op.panicked, op.timer = nil, true, nil
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	if first {
		timeout := op.c.changeTimeout(op.began, op.machine.Deadline)
		// A request that is on its way has no effect after its timeout.
		op.c.clock.After(timeout, op.abandoned)
	}
	if done == nil {
		// The step had taken the callback, and panicked before calling it.
		done = d.done
	}
	if done != nil {
		op.c.writing.Add(-1)
		done(err)
	}
}

// abandoned ends a write that has panicked, when its requests can no longer have an effect.
func (op *writeOp) abandoned() {
	op.c.writeBytes.Add(-op.size)
	op.c.sent.Leave(op.generation)
	if op.settled != nil {
		op.settled(Settlement{})
	}
}

// answered delivers the answer of a node to t.
func (op *writeOp) answered(t *write.Target, err error) {
	// A write whose only replica is this node has no machine.
	if op.only == t {
		op.answeredHere(err)
		return
	}
	ev := write.Event{Kind: write.Answered, Target: t}
	ev.Answer, ev.Reason = answerOf(err)
	op.deliver(&ev)
}

// answerOf converts the error of a replica to the machine's Answer and the reason of a refusal.
func answerOf(err error) (_ write.Answer, reason uint16) {
	if err == nil {
		// Before errors.As, which lets its target escape to the heap.
		return write.Acknowledges, 0
	}
	var refusal *NotReplica
	switch {
	case errors.As(err, &refusal):
		return write.Disowns, 0
	case silent(err):
		return write.Silent, 0
	}
	return write.Refuses, uint16(reasonOf(err))
}

// outcome converts the outcome of the machine to the error for the client, and counts it.
func (op *writeOp) outcome(o *write.Outcome) error {
	counts, level := &op.c.counts, op.machine.Level
	switch o.Kind {
	case write.Success:
		return nil
	case write.Unavailable:
		counts.unavailable.Add(1)
		return &Unavailable{Consistency: level, Required: o.Required, Alive: o.Received}
	case write.UnknownTable:
		return &UnknownTable{Table: o.Table}
	case write.Failure:
		// The failures are copied, because the machine is reset before the client reads the error.
		failures := make([]NodeFailure, len(o.Failures))
		for i, f := range o.Failures {
			failures[i] = NodeFailure{Node: f.Node, Reason: FailureReason(f.Reason)}
		}
		return &WriteFailure{
			Consistency: level,
			Received:    o.Received,
			BlockFor:    o.Required,
			Failures:    failures,
			Type:        op.kind,
		}
	case write.Timeout:
	}
	counts.writeTimeouts.Add(1)
	return &WriteTimeout{Consistency: level, Received: o.Received, BlockFor: o.Required, Type: op.kind}
}

// silent reports whether err means that a replica did not answer, rather than that it failed.
func silent(err error) bool {
	return err == nil || errors.Is(err, ErrNoReply) || errors.Is(err, ErrNotSent)
}

// reasonOf returns the reason of a replica's failure for the client.
func reasonOf(err error) FailureReason {
	var f *ReplicaFailure
	if errors.As(err, &f) {
		return f.Reason
	}
	return FailureUnknown
}

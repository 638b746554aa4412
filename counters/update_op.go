package counters

import (
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/row"
)

// updateOp is the shell of an updating: it locks, steps, checks the invariants, unlocks, and performs the effects.
type updateOp struct {
	c         *Counters
	mutation  *row.Mutation
	trace     coordinator.Trace
	blocks    bool          // the goroutine of the first event may block on the disk
	deadline  time.Duration // monotonic
	size      int64         // reserved until the client is answered
	onTimeout func()

	mu      sync.Mutex
	machine updating    // its steps hold mu
	done    func(error) // nil after it was taken
	timer   env.Timer   // of the deadline
}

// updateDuties are what the goroutine of a step does besides its effects.
type updateDuties struct {
	done func(error) // of updateReply; nil after it was called
}

// deliver takes an event, and performs its effects.
func (op *updateOp) deliver(ev *updateEvent) {
	var duties updateDuties
	if op.c.guard != nil {
		defer op.recovered(&duties)
	}
	switch {
	case ev.kind == updateBegun:
		op.deadline = op.c.clock.Monotonic() + ev.after
		ev.topology = op.c.view.Topology()
	// A success needs no plan.
	case ev.kind == updateResumed, ev.err != nil:
		ev.topology = op.c.view.Topology()
		ev.arrives = ev.err != nil && op.c.c.MayArrive(ev.err, op.deadline)
	}
	var backing [updateEffects]updateEffect
	out := op.step(ev, backing[:0], &duties)
	for i := range out {
		op.perform(&out[i], &duties)
	}
}

// step is the critical section of an event. The timer is set and stopped in it, because neither calls back.
func (op *updateOp) step(ev *updateEvent, out []updateEffect, d *updateDuties) []updateEffect {
	op.mu.Lock()
	defer op.mu.Unlock()
	out = op.machine.step(ev, out)
	op.machine.check()
	for i := range out {
		//exhaustive:ignore
		switch out[i].kind {
		case updateArm:
			op.timer = op.c.clock.After(out[i].after, op.onTimeout)
		case updateReply:
			// done is taken under the lock, so that the client is answered exactly once.
			d.done, op.done = op.done, nil
			if op.timer != nil {
				op.timer.Stop()
				op.timer = nil
			}
		}
	}
	return out
}

// perform performs an effect without the lock.
func (op *updateOp) perform(e *updateEffect, d *updateDuties) {
	//exhaustive:enforce
	switch e.kind {
	case updateLead:
		op.lead(e)
	case updateArm: // step has set the timer
	case updatePause:
		number := e.number
		op.c.clock.After(e.after, func() { op.deliver(&updateEvent{kind: updateResumed, number: number}) })
	case updateNote:
		op.c.c.Note(e.note)
	case updateReply:
		d.answer(op, e.err)
	}
}

// answer releases what the update has reserved, and calls done.
func (d *updateDuties) answer(op *updateOp, err error) {
	// done is cleared first, so that recovered does not call it again after a panic of the client's code.
	done := d.done
	d.done = nil
	if done != nil {
		op.c.c.Release(op.size)
		done(err)
	}
}

// lead sends the update to its leader.
func (op *updateOp) lead(e *updateEffect) {
	c, self := op.c, op.c.view.Self()
	timeout, number := c.c.Remaining(op.deadline), e.number
	done := func(err error) { op.deliver(&updateEvent{kind: updateAnswered, number: number, err: err}) }
	if e.node == self {
		coordinator.AddTrace(op.trace, self, "Leading counter update")
		update := op.update(e)
		// Later plans are events of other goroutines.
		update.blocks = op.blocks && number == 1
		c.Lead(&update, LeaderTimeout(timeout), done)
		return
	}
	coordinator.AddNodeTrace(op.trace, self, "Enqueuing counter update to", e.node)
	update := op.update(e)
	// Every request has its own ID: an update that a node refused may be sent to it again after a new plan.
	update.ID = c.c.NextRequestID()
	c.leaders.Lead(e.node, &update, timeout, done)
}

// update returns the update for a leader on this node.
func (op *updateOp) update(e *updateEffect) Update {
	// The level never changes, so the lock is not necessary.
	return Update{Epoch: e.epoch, Consistency: op.machine.level, Mutation: op.mutation, Trace: op.trace}
}

// recovered is deferred by events. After a panic, the state of the machine is unknown: the update ends with an error,
// and later events have no effect. A leader may have counted it, so the error must not promise the opposite.
func (op *updateOp) recovered(d *updateDuties) {
	p := recover()
	if p == nil {
		return
	}
	err := op.c.guard.Caught("coordinator counter", p)
	op.mu.Lock()
	op.machine.state = updateOver
	if op.done != nil {
		// If done is nil, the step had taken it, or the client has been answered.
		d.done, op.done = op.done, nil
	}
	timer := op.timer
	op.timer = nil
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	d.answer(op, err)
}

package coordinator

import (
	"errors"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
)

// arm starts the timer if the answer has not arrived yet; if only this node was asked, it usually has.
func (op *readOp) arm() {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.done == nil || op.deadline == 0 {
		return
	}
	wait := op.deadline - op.started
	if d, ok := op.c.tables.After(op.table); ok && op.nextSpare() != nil {
		wait = min(wait, d)
	}
	op.refs++
	op.timer = op.c.clock.After(max(wait, 0), op.onTimer)
}

// needPage requests the page of a replica that has sent a digest, unless another page is outstanding.
func (op *readOp) needPage() (readRequest, bool) {
	var again *readTarget
	for _, t := range op.targets {
		if t.state == readOpenPage {
			return readRequest{}, false
		}
		if t.state == readAnswered && again == nil {
			again = t
		}
	}
	if again == nil {
		return readRequest{}, false
	}
	op.tally.Again(again.node)
	return op.mark(again, false), true
}

// failedLocked handles a replica's failure: it asks another replica, or fails the read. It unlocks mu and releases the
// caller's reference.
func (op *readOp) failedLocked(t *readTarget, err error) {
	wasPage := t.state == readOpenPage
	t.state, t.err = readFailed, err
	if errors.Is(err, env.ErrCanceled) {
		op.failLocked(env.ErrCanceled)
		return
	}
	var tooSmall *row.PageTooSmall
	if errors.As(err, &tooSmall) { // the request reserves more memory and reads again
		op.failLocked(tooSmall)
		return
	}
	var refusal *NotReplica
	op.refused = op.refused || errors.As(err, &refusal)
	op.tally.Failed(t.node)
	// spares are counted: while the ring changes, one side may lack them, and answers of the other side do not help
	if op.tally.Hopeless() {
		op.giveUpLocked()
		return
	}
	if spares := op.sparesFor(t.node); len(spares) > 0 && op.deadline > op.c.clock.Monotonic() {
		requests := make([]readRequest, 0, len(spares))
		for i, spare := range spares {
			requests = append(requests, op.mark(spare, !wasPage || i > 0))
		}
		op.mu.Unlock()
		op.send(requests, false)
		op.release()
		return
	}
	if op.phase == phaseData {
		op.gatherLocked()
	} else {
		op.compareLocked()
	}
}

// sparesFor returns the replicas to ask instead of a failed one: one that counts wherever the failed one would have,
// or, while the ring changes, one of each side.
func (op *readOp) sparesFor(failed ring.NodeID) (spares []*readTarget) {
	for _, t := range op.targets {
		switch {
		case t.state != readSpare:
		case op.tally.Replaces(t.node, failed):
			return append(spares[:0], t)
		case op.tally.Helps(t.node, failed):
			spares = append(spares, t)
		}
	}
	return spares
}

// giveUpLocked fails the read, or plans it again if a replica refused it. It unlocks mu and releases the caller's
// reference.
func (op *readOp) giveUpLocked() {
	err := op.failure()
	op.refused = op.refused || op.c.outdated(op.topology.Epoch())
	if op.refused && !op.whole {
		err = &refused{err}
	}
	if op.refused && op.whole && op.plans < op.c.limits.PlansMax && !op.c.unsafe.NoReplan && op.deadline > 0 {
		op.round++
		op.refs++
		pause := ReplanPause << (op.plans - 1)
		op.mu.Unlock()
		op.c.counts.replans.Add(1)
		op.c.clock.After(pause, op.replan)
		op.release()
		return
	}
	op.failLocked(err)
}

// failure returns the error for the present counts.
func (op *readOp) failure() error {
	received, blockFor := op.tally.Totals()
	var failures []NodeFailure
	data := false
	for _, t := range op.targets {
		data = data || t.page != nil
		if t.state == readFailed && !silent(t.err) {
			failures = append(failures, NodeFailure{Node: t.node, Reason: reasonOf(t.err)})
		}
	}
	if len(failures) > 0 {
		return &ReadFailure{Consistency: op.level, Received: received, BlockFor: blockFor, Failures: failures,
			DataPresent: data}
	}
	op.c.counts.readTimeouts.Add(1)
	return &ReadTimeout{Consistency: op.level, Received: received, BlockFor: blockFor, DataPresent: data}
}

// tick is the event of the timer. The first one speculates; the last one is the deadline.
func (op *readOp) tick() {
	defer op.guarded()
	op.mu.Lock()
	op.timer = nil
	if op.done == nil {
		op.mu.Unlock()
		op.release()
		return
	}
	left := op.deadline - op.c.clock.Monotonic()
	if left <= 0 {
		op.failLocked(op.failure())
		return
	}
	op.timer = op.c.clock.After(left, op.onTimer) // uses the reference of the previous timer
	spare := op.nextSpare()
	if spare == nil || op.phase == phaseRepair {
		op.mu.Unlock()
		return
	}
	a := op.mark(spare, op.phase == phaseDigest && op.withPage() != nil)
	op.refs++
	op.mu.Unlock()
	op.c.counts.speculated.Add(1)
	trace(op.trace, op.self, "Speculating: asking one more replica")
	op.send([]readRequest{a}, false)
	op.release()
}

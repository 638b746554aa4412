package coordinator

import (
	"errors"
	"time"

	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
)

// untilTick returns the time until the deadline, or until one more replica is asked because others are late.
func (r *reading) untilTick() time.Duration {
	wait := r.deadline - r.started
	// Without a spare replica there is nothing to speculate with before the deadline.
	if d, ok := r.c.tables.After(r.table); ok && r.nextSpare() != nil {
		wait = min(wait, d)
	}
	return max(wait, 0)
}

// needPage requests the page of a replica that has sent a digest, unless another page is outstanding.
func (r *reading) needPage(out []readEffect) []readEffect {
	var again *readTarget
	for _, t := range r.targets {
		if t.state == readOpenPage {
			// A page is outstanding; if that request fails, needPage is called again.
			return out
		}
		if t.state == readAnswered && again == nil {
			again = t
		}
	}
	if again == nil {
		return out
	}
	// The node's digest was counted; Again keeps its page from being counted twice.
	r.tally.Again(again.node)
	return r.ask(again, false, out)
}

// failed handles a replica's failure: it asks another replica, or fails the read.
func (r *reading) failed(ev *readEvent, out []readEffect) []readEffect {
	t, err := ev.target, ev.err
	wasPage := t.state == readOpenPage
	t.state, t.err = readFailed, err
	if errors.Is(err, env.ErrCanceled) {
		// The caller has canceled the read: no other replica needs to be asked.
		return r.fail(env.ErrCanceled, out)
	}
	var tooSmall *row.PageTooSmall
	if errors.As(err, &tooSmall) { // the request reserves more memory and reads again
		return r.fail(tooSmall, out)
	}
	var refusal *NotReplica
	r.refused = r.refused || errors.As(err, &refusal)
	// From here on, the node's answer is no longer expected on any side of a ring change.
	r.tally.Failed(t.node)
	// Hopeless counts spares as possible answers, per side: while the ring changes, one side may have none, and
	// answers of the other side do not help.
	if r.tally.Hopeless() {
		return r.giveUp(out)
	}
	if spares := r.sparesFor(t.node); len(spares) > 0 && r.deadline > ev.now {
		for i, spare := range spares {
			out = r.ask(spare, !wasPage || i > 0, out)
		}
		return out
	}
	if r.phase == phaseData {
		// The pages of the other replicas may suffice.
		return r.gather(out)
	}
	return r.compare(out)
}

// sparesFor returns the replicas to ask instead of a failed one: one that counts wherever the failed one would have,
// or, while the ring changes, one of each side.
func (r *reading) sparesFor(failed ring.NodeID) (spares []*readTarget) {
	for _, t := range r.targets {
		switch {
		case t.state != readSpare:
		case r.tally.Replaces(t.node, failed):
			// This spare counts wherever the failed node would have, so the ones collected so far are not needed.
			return append(spares[:0], t)
		case r.tally.Helps(t.node, failed):
			spares = append(spares, t)
		}
	}
	return spares
}

// giveUp fails the read, or plans it again if a replica refused it.
func (r *reading) giveUp(out []readEffect) []readEffect {
	err := r.failure()
	r.refused = r.refused || r.c.outdated(r.topology.Epoch())
	if r.refused && !r.whole {
		err = &refused{err} // the range read plans its rest again
	}
	if r.refused && r.whole && r.c.MayReplan(r.plans) && r.deadline > 0 {
		// Answers to this plan are ignored from here on.
		r.round++
		r.pausing = true
		return append(out, readEffect{kind: readPause, after: ReplanPause << (r.plans - 1)})
	}
	return r.fail(err, out)
}

// failure returns the error for the present counts.
func (r *reading) failure() error {
	received, blockFor := r.tally.Totals()
	var failures []NodeFailure
	data := false
	for _, t := range r.targets {
		data = data || t.page != nil
		if t.state == readFailed && !silent(t.err) {
			failures = append(failures, NodeFailure{Node: t.node, Reason: reasonOf(t.err)})
		}
	}
	// An error of a replica explains more than a missing answer.
	if len(failures) > 0 {
		return &ReadFailure{Consistency: r.level, Received: received, BlockFor: blockFor, Failures: failures,
			DataPresent: data}
	}
	r.c.counts.readTimeouts.Add(1)
	return &ReadTimeout{Consistency: r.level, Received: received, BlockFor: blockFor, DataPresent: data}
}

// tick handles a timer that has fired. The first tick asks one more replica; the last one is the deadline.
func (r *reading) tick(now time.Duration, out []readEffect) []readEffect {
	left := r.deadline - now
	if left <= 0 {
		return r.fail(r.failure(), out)
	}
	out = append(out, readEffect{kind: readArm, after: left})
	spare := r.nextSpare()
	// Repairs are not speculated: each replica has its own mutations. During a pause the plan has been given up, and
	// an answer to it could start a second pause.
	if spare == nil || r.pausing || r.phase == phaseRepair {
		return out
	}
	out = append(out, readEffect{kind: readSpeculate})
	// The page is requested unless there is one already, because the late replica may be the one that was to send it.
	return r.ask(spare, r.phase == phaseDigest && r.withPage() != nil, out)
}

// checkInvariants stops the program if an invariant is broken:
//
//  1. No more answers are outstanding than requests were sent.
//  2. A read that is not over waits for an answer or for the end of a pause, or can ask another replica.
//  3. No replica is counted twice.
//  4. The result belongs to a read that is over.
func (r *reading) checkInvariants() {
	invariant.Check(r.open >= 0, "read: a request was answered twice")
	if r.over {
		return
	}
	invariant.Check(r.open > 0 || r.pausing || r.nextSpare() != nil, "read: nothing but the deadline would end it")
	invariant.Check(r.page == nil && r.err == nil, "read: a result before the end")
	for i := range r.tally.Quotas() {
		invariant.Check(r.tally.Quotas()[i].Open >= 0, "read: a replica was counted twice")
	}
}

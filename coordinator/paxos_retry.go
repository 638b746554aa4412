package coordinator

import (
	"errors"
	"time"

	"cqld/ring"
)

// casContentionDefault is how long a serial read tries when others are ahead (Cassandra's
// cas_contention_timeout).
const casContentionDefault = time.Second

// Pauses between attempts: the first is about as long as a round takes on a local network, the
// longest lets half a dozen tries fit into the default contention timeout.
const (
	casPauseFirst = 2 * time.Millisecond
	casPauseMost  = 160 * time.Millisecond
)

// casSettle is how long the last promises are waited for: about as long as the round takes that they
// spare.
const casSettle = 2 * time.Millisecond

// pause is how long to wait before the next attempt: random, so that two who disturb each other do
// not meet again, and longer each time.
func (op *casOp) pause() time.Duration {
	most := min(casPauseFirst<<min(op.tries, 10), casPauseMost)
	op.tries++
	return most/4 + time.Duration(op.c.chance()%uint64(most))
}

// outvotedLocked follows when a quorum is out of reach. It frees mu.
func (op *casOp) outvotedLocked() {
	if op.phase == casAccepting && op.proposal.Origin == op.ballot && len(op.proposal.Update) > 0 && op.maybeAccepted() {
		op.own = append(op.own, op.ballot)
	}
	var refusal *NotReplica
	var failures []NodeFailure
	contended, moved := false, false
	for i := range op.votes {
		v := &op.votes[i]
		switch {
		case v.state == voteNo:
			contended = true
		case v.state == voteFailed && errors.As(v.err, &refusal):
			moved = true
		case v.state == voteFailed && !silent(v.err):
			failures = append(failures, NodeFailure{Node: v.node, Reason: reasonOf(v.err)})
		}
	}
	switch {
	case contended:
		op.contentions++
		op.c.counts.casContentions.Add(1)
		op.againLocked(op.pause())
	case moved && op.plans < op.c.limits.PlansMax:
		op.plans++
		op.c.counts.replans.Add(1)
		op.againLocked(replanPause << (op.plans - 1))
	case len(failures) > 0 && len(op.own) == 0:
		op.concludeLocked(false, &WriteFailure{Consistency: op.req.Serial, Received: op.received(),
			BlockFor: op.voters.required(), Failures: failures, Type: WriteCAS})
	default:
		op.concludeLocked(false, op.timedOut())
	}
}

// maybeAccepted says whether any voter has accepted the proposal, or may have.
func (op *casOp) maybeAccepted() bool {
	for i := range op.votes {
		switch v := &op.votes[i]; {
		case v.state == voteYes, v.state == voteOpen:
			return true
		case v.state == voteFailed && !errors.Is(v.err, ErrNotSent):
			return true
		}
	}
	return false
}

// retryLocked tries again after a failure of work between the votes. It frees mu.
func (op *casOp) retryLocked(err error) {
	var refusal *NotReplica
	if errors.As(err, &refusal) {
		op.c.counts.replans.Add(1)
	}
	op.againLocked(op.pause())
}

// againLocked makes another attempt after a pause, if there is time. It frees mu.
func (op *casOp) againLocked(pause time.Duration) {
	op.disarmLocked()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	if op.c.clock.Monotonic()+pause >= op.deadline {
		op.concludeLocked(false, op.timedOut())
		return
	}
	op.phase = casIdle
	op.round++
	op.mu.Unlock()
	op.c.clock.After(pause, op.begin) // at once, too, but not on this stack
}

// onTimeout is the event that replicas were silent for too long.
func (op *casOp) onTimeout(round int, phase casPhase) {
	op.mu.Lock()
	if round != op.round || phase != op.phase || op.done == nil {
		op.mu.Unlock()
		return
	}
	if op.phase == casAccepting && op.proposal.Origin == op.ballot && len(op.proposal.Update) > 0 {
		op.own = append(op.own, op.ballot)
	}
	op.concludeLocked(false, op.timedOut())
}

// timedOut is the error of a change that did not come through: unknown, when some may have accepted
// it.
func (op *casOp) timedOut() error {
	if len(op.own) > 0 {
		return op.unknown()
	}
	op.c.counts.writeTimeouts.Add(1)
	return &WriteTimeout{Consistency: op.req.Serial, Received: min(op.received(), op.voters.required()), BlockFor: op.voters.required(),
		Type: WriteCAS, Contentions: op.contentions}
}

func (op *casOp) unknown() error {
	op.c.counts.writeTimeouts.Add(1)
	return &CASUnknown{Consistency: op.req.Serial, Received: min(op.received(), op.voters.required()), BlockFor: op.voters.required()}
}

// decidedButFailed is the error of the write of what is decided: that nothing was sent may be true of this
// write, but not of the change, which will be finished by whoever comes next.
func (op *casOp) decidedButFailed(level ring.Consistency, err error) error {
	if !errors.Is(err, ErrNotSent) {
		return err
	}
	op.c.counts.writeTimeouts.Add(1)
	return &WriteTimeout{Consistency: level, BlockFor: level.BlockFor(op.table.Replication, op.c.localDC), Type: WriteSimple}
}

// asWrite is the error of the read before the condition as those who change are told it.
func (op *casOp) asWrite(err error) error {
	if op.req.Update == nil {
		return err
	}
	var timeout *ReadTimeout
	var failure *ReadFailure
	switch {
	case errors.As(err, &timeout):
		return &WriteTimeout{Consistency: timeout.Consistency, Received: timeout.Received, BlockFor: timeout.BlockFor, Type: WriteCAS}
	case errors.As(err, &failure):
		return &WriteFailure{Consistency: failure.Consistency, Received: failure.Received, BlockFor: failure.BlockFor,
			Failures: failure.Failures, Type: WriteCAS}
	}
	return err
}

// concludeLocked answers, and lets the next change of the partition begin. It frees mu.
func (op *casOp) concludeLocked(applied bool, err error) {
	if err != nil && len(op.own) > 0 {
		var unknown *CASUnknown
		if !errors.As(err, &unknown) {
			err = op.unknown() // whatever went wrong, it may still be decided
		}
	}
	done, page := op.done, op.page
	op.done = nil
	op.disarmLocked()
	op.mu.Unlock()
	if done == nil {
		return
	}
	done(applied && err == nil, page, err)
	op.leave()
}

// leave ends the op.
func (op *casOp) leave() {
	if next := op.c.casLines.leave(op.line); next != nil {
		// Not on this stack: a long line would be a deep one.
		op.c.clock.After(0, next.begin)
	}
}

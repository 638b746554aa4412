package paxos

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/ring"
)

// contentionDefault is how long a serial read tries when others are ahead (Cassandra's
// cas_contention_timeout).
const contentionDefault = time.Second

// Pauses between attempts: the first is as long as a trip to a quorum takes, as measured, and at least pauseFirst;
// the longest lets half a dozen tries fit into the default contention timeout.
const (
	pauseFirst = 2 * time.Millisecond
	pauseMost  = 160 * time.Millisecond
)

// patienceTrips is how many trips a phase waits for the last votes after one was refused, patienceLeast how long at
// least.
const (
	patienceTrips = 4
	patienceLeast = 10 * time.Millisecond
)

// settleWait is how long the last promises are waited for: about as long as the round takes that they
// spare.
const settleWait = 2 * time.Millisecond

// pause is how long to wait before the next attempt: random, so that two who disturb each other do
// not meet again, and longer each time.
func (op *round) pause() time.Duration {
	most := min(max(pauseFirst, op.c.trips.Of())<<min(op.tries, 10), pauseMost)
	op.tries++
	return most/4 + time.Duration(op.c.chance()%uint64(most))
}

// outvotedLocked follows when a quorum is out of reach. It frees mu.
func (op *round) outvotedLocked() {
	op.doubtLocked()
	var refusal *coordinator.NotReplica
	var overloaded *coordinator.Overloaded
	var failures []coordinator.NodeFailure
	contended, moved := false, false
	for i := range op.votes {
		v := &op.votes[i]
		switch {
		case v.state == voteNo:
			contended = true
		case v.state == voteFailed && errors.As(v.err, &refusal):
			moved = true
		case v.state == voteFailed && errors.As(v.err, &overloaded):
		case v.state == voteFailed && !coordinator.Silent(v.err):
			failures = append(failures, coordinator.NodeFailure{Node: v.node, Reason: coordinator.ReasonOf(v.err)})
		}
	}
	switch {
	case contended:
		op.contendedLocked()
		op.againLocked(op.pause())
	case (moved || op.c.outdated(op.topology.Epoch())) && op.plans < op.c.limits.PlansMax:
		op.plans++
		op.c.counts.replans.Add(1)
		op.againLocked(coordinator.ReplanPause << (op.plans - 1))
	case len(failures) > 0:
		op.failLocked(&coordinator.WriteFailure{Consistency: op.serial, Received: op.received(),
			BlockFor: op.voters.required(), Failures: failures, Type: coordinator.WriteCAS})
	case overloaded != nil:
		op.c.counts.overloaded.Add(1)
		op.failLocked(overloaded)
	default:
		op.failLocked(op.timedOut())
	}
}

// hurryLocked shortens the wait for the last votes once one was refused: another proposer is ahead, and an attempt with
// a later ballot needs only those that answer. Otherwise a dead node that the failure detector has not noticed yet holds
// the round up for the whole timeout.
func (op *round) hurryLocked() {
	if op.hurried || op.timer == nil {
		return
	}
	op.disarmLocked()
	op.hurried = true
	attempt, phase := op.attempt, op.phase
	op.timer = op.c.clock.After(min(max(patienceTrips*op.c.trips.Of(), patienceLeast), op.timeout), func() { op.onSlow(attempt, phase) })
}

// onSlow is the event that the last votes of a phase in which one was refused did not come.
func (op *round) onSlow(attempt int, phase roundPhase) {
	defer op.guarded()
	op.mu.Lock()
	if attempt != op.attempt || phase != op.phase || op.over {
		op.mu.Unlock()
		return
	}
	op.outvotedLocked()
}

// contendedLocked notes that others change the partition at the same time.
func (op *round) contendedLocked() {
	op.contentions++
	op.c.counts.contentions.Add(1)
	op.c.contested.Note(op.line, op.c.clock.Monotonic())
}

// maybeAccepted says whether any voter has accepted the proposal, or may have.
func (op *round) maybeAccepted() bool {
	for i := range op.votes {
		switch v := &op.votes[i]; {
		case v.state == voteYes, v.state == voteOpen:
			return true
		case v.state == voteFailed && !errors.Is(v.err, coordinator.ErrNotSent):
			return true
		}
	}
	return false
}

// retryLocked tries again after a failure of work between the votes. It frees mu.
func (op *round) retryLocked(err error) {
	var refusal *coordinator.NotReplica
	if errors.As(err, &refusal) {
		op.c.counts.replans.Add(1)
	}
	op.againLocked(op.pause())
}

// againLocked makes another attempt after a pause, for those who have the time. It frees mu.
func (op *round) againLocked(pause time.Duration) {
	op.disarmLocked()
	op.phase = phaseIdle
	op.stageLocked(StagePause)
	op.attempt++
	if op.expireLocked(op.c.clock.Monotonic() + pause); op.over {
		op.mu.Unlock()
		return
	}
	op.mu.Unlock()
	op.c.clock.After(pause, op.begin) // at once, too, but not on this stack
}

// onTimeout is the event that replicas were silent for too long.
func (op *round) onTimeout(attempt int, phase roundPhase) {
	defer op.guarded()
	op.mu.Lock()
	if attempt != op.attempt || phase != op.phase || op.over {
		op.mu.Unlock()
		return
	}
	op.doubtLocked()
	op.failLocked(op.timedOut())
}

// timedOut is the error of a change that did not come through, and certainly was not made.
func (op *round) timedOut() error {
	return &coordinator.WriteTimeout{Consistency: op.serial, Received: min(op.received(), op.voters.required()), BlockFor: op.voters.required(),
		Type: coordinator.WriteCAS, Contentions: op.contentions}
}

// decidedButFailed is the error of the write of what is decided: that nothing was sent may be true of this
// write, but not of the change, which will be finished by whoever comes next.
func (op *round) decidedButFailed(level ring.Consistency, err error) error {
	if !errors.Is(err, coordinator.ErrNotSent) {
		return err
	}
	op.c.counts.writeTimeouts.Add(1)
	return &coordinator.WriteTimeout{Consistency: level, BlockFor: level.BlockFor(op.table.Replication, op.c.localDC), Type: coordinator.WriteSimple}
}

// asWrite is the error of the read before the condition as those who change are told it.
func asWrite(err error) error {
	var timeout *coordinator.ReadTimeout
	var failure *coordinator.ReadFailure
	switch {
	case errors.As(err, &timeout):
		return &coordinator.WriteTimeout{Consistency: timeout.Consistency, Received: timeout.Received, BlockFor: timeout.BlockFor, Type: coordinator.WriteCAS}
	case errors.As(err, &failure):
		return &coordinator.WriteFailure{Consistency: failure.Consistency, Received: failure.Received, BlockFor: failure.BlockFor,
			Failures: failure.Failures, Type: coordinator.WriteCAS}
	}
	return err
}

package paxos

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/ring"
)

// contentionDefault limits the attempts of a serial read while other proposers are ahead (Cassandra's
// cas_contention_timeout).
const contentionDefault = time.Second

// Pauses between attempts. The first is one measured round trip to a quorum, and at least pauseFirst. The longest
// allows six attempts within the default contention timeout.
const (
	pauseFirst = 2 * time.Millisecond
	pauseMost  = 160 * time.Millisecond
)

// patienceTrips is the number of round trips for which a phase waits for the last votes after one was refused;
// patienceLeast is the minimum wait.
const (
	patienceTrips = 4
	patienceLeast = 10 * time.Millisecond
)

// settleWait limits the wait for the last promises: about the duration of the round that they save.
const settleWait = 2 * time.Millisecond

// pause returns the time before the next attempt. It is random, so that two competing proposers do not collide again,
// and it grows with each attempt.
func (op *round) pause() time.Duration {
	most := min(max(pauseFirst, op.c.trips.Of())<<min(op.tries, 10), pauseMost)
	op.tries++
	return most/4 + time.Duration(op.c.chance()%uint64(most))
}

// outvotedLocked continues when a quorum can no longer be reached. It unlocks mu.
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
		op.againLocked(CauseContention, op.pause())
	case (moved || op.c.outdated(op.topology.Epoch())) && op.plans < op.c.limits.PlansMax:
		op.plans++
		op.c.counts.replans.Add(1)
		op.againLocked(CauseRing, coordinator.ReplanPause<<(op.plans-1))
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

// hurryLocked shortens the wait for the last votes after one was refused: another proposer is ahead, and an attempt
// with a later ballot needs only a majority. Otherwise a dead node that the failure detector has not noticed yet would
// delay the round by the whole timeout.
func (op *round) hurryLocked() {
	if op.hurried || op.timer == nil {
		return
	}
	op.disarmLocked()
	op.hurried = true
	attempt, phase := op.attempt, op.phase
	op.timer = op.c.clock.After(min(max(patienceTrips*op.c.trips.Of(), patienceLeast), op.timeout),
		func() { op.onSlow(attempt, phase) })
}

// onSlow is the event that the last votes of a phase in which one was refused did not arrive in time.
func (op *round) onSlow(attempt int, phase roundPhase) {
	defer op.guarded()
	op.mu.Lock()
	if attempt != op.attempt || phase != op.phase || op.over {
		op.mu.Unlock()
		return
	}
	op.outvotedLocked()
}

// contendedLocked records that other proposers change the partition at the same time.
func (op *round) contendedLocked() {
	op.contentions++
	op.c.counts.contentions.Add(1)
	op.c.contested.Note(op.partition, op.c.clock.Monotonic())
}

// maybeAccepted reports whether any voter has accepted, or may have accepted, the proposal.
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

// retryLocked retries after a failure of work between the votes. It unlocks mu.
func (op *round) retryLocked(err error) {
	var refusal *coordinator.NotReplica
	if errors.As(err, &refusal) {
		op.c.counts.replans.Add(1)
	}
	op.againLocked(CauseRead, op.pause())
}

// againLocked makes another attempt after a pause, for the members with time left. cause is why the last one failed, or
// CauseQueue if it only did the work of another proposer. It unlocks mu.
func (op *round) againLocked(cause Cause, pause time.Duration) {
	op.disarmLocked()
	if op.heard = op.responses(); cause != CauseQueue || op.delay == CauseNone {
		op.delay = cause // work for another proposer does not hide why an earlier attempt failed
	}
	if cause != CauseUnavailable {
		op.lacking = nil
	}
	if cause != CauseQueue {
		for _, m := range op.members {
			m.failed = true
		}
	}
	op.phase = phaseIdle
	op.stageLocked(StagePause)
	op.attempt++
	if op.expireLocked(op.c.clock.Monotonic() + pause); op.over {
		op.mu.Unlock()
		return
	}
	op.mu.Unlock()
	op.c.clock.After(pause, op.begin) // not on this stack, even without a pause
}

// onTimeout is the event that replicas did not answer in time.
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

// decidedButFailed returns the error of a decided change whose write failed. ErrNotSent applies to this write, but not
// to the change, which the next proposer of the partition completes. Nothing was sent, so no replica has responded.
func (op *round) decidedButFailed(level ring.Consistency, err error) error {
	if !errors.Is(err, coordinator.ErrNotSent) {
		return err
	}
	op.c.counts.writeTimeouts.Add(1)
	return &coordinator.WriteTimeout{Consistency: level, BlockFor: level.BlockFor(op.table.Replication, op.c.localDC),
		Type: coordinator.WriteSimple}
}

// asWrite converts the error of the read before the condition to the error of a conditional change.
func asWrite(err error) error {
	var timeout *coordinator.ReadTimeout
	var failure *coordinator.ReadFailure
	switch {
	case errors.As(err, &timeout):
		return &coordinator.WriteTimeout{Consistency: timeout.Consistency, Received: timeout.Received,
			BlockFor: timeout.BlockFor, Type: coordinator.WriteCAS}
	case errors.As(err, &failure):
		return &coordinator.WriteFailure{Consistency: failure.Consistency, Received: failure.Received,
			BlockFor: failure.BlockFor,
			Failures: failure.Failures, Type: coordinator.WriteCAS}
	}
	return err
}

package paxos

import (
	"errors"
	"time"

	"cqld/coordinator"
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

// lastVotesTrips is the number of round trips for which a phase waits for the last votes after one was refused;
// lastVotesLeast is the minimum wait.
const (
	lastVotesTrips = 4
	lastVotesLeast = 10 * time.Millisecond
)

// settleWait limits the wait for the last promises: about the duration of the round that they save.
const settleWait = 2 * time.Millisecond

// outvoted continues when a quorum can no longer be reached.
func (m *machine) outvoted(out []effect) []effect {
	m.doubt()
	var refusal *coordinator.NotReplica
	var overloaded *coordinator.Overloaded
	var failures []coordinator.NodeFailure
	contended, moved := false, false
	for i := range m.votes {
		v := &m.votes[i]
		switch {
		case v.state == voteNo:
			contended = true
		case v.state == voteFailed && errors.As(v.err, &refusal):
			moved = true
		// An overloaded replica has not failed: the client should learn that it may retry.
		case v.state == voteFailed && errors.As(v.err, &overloaded):
		case v.state == voteFailed && !coordinator.Silent(v.err):
			failures = append(failures, coordinator.NodeFailure{Node: v.node, Reason: coordinator.ReasonOf(v.err)})
		}
	}
	switch {
	case contended:
		m.contended()
		// A refusal is handled before other causes: with a later ballot, a majority of the remaining voters may
		// suffice.
		return m.again(out, CauseContention, m.pause())
	case (moved || m.c.outdated(m.topology.Epoch())) && m.plans < m.c.limits.PlansMax:
		// The replicas of the newer topology may agree.
		return m.replan(out)
	case len(failures) > 0:
		return m.fail(out, &coordinator.WriteFailure{
			Consistency: m.serial,
			Received:    m.received(),
			BlockFor:    m.voters.required(),
			Failures:    failures,
			Type:        coordinator.WriteCAS,
		})
	case overloaded != nil:
		m.c.counts.overloaded.Add(1)
		return m.fail(out, overloaded)
	}
	return m.fail(out, m.timedOut(m.lagging))
}

// replan makes another attempt with the current topology after acceptors refused this one: their topology is later,
// and may not have reached this node yet.
func (m *machine) replan(out []effect) []effect {
	m.plans++
	m.c.counts.replans.Add(1)
	// The pause doubles each time: metadata usually arrives within milliseconds, and a retry fails until then.
	return m.again(out, CauseRing, coordinator.ReplanPause<<(m.plans-1))
}

// notSent reports whether a request certainly had no effect, because no replica received it.
func notSent(err error) bool { return errors.Is(err, coordinator.ErrNotSent) }

// isNotReplica reports whether a node refused a request because its topology is another one.
func isNotReplica(err error) bool {
	var refusal *coordinator.NotReplica
	return errors.As(err, &refusal)
}

// asWrite converts the error of the read before the condition to the error of a conditional change.
func asWrite(err error) error {
	var timeout *coordinator.ReadTimeout
	var failure *coordinator.ReadFailure
	switch {
	case errors.As(err, &timeout):
		// The client has sent a conditional change and does not know that it includes a read.
		return &coordinator.WriteTimeout{Consistency: timeout.Consistency, Received: timeout.Received,
			BlockFor: timeout.BlockFor, Type: coordinator.WriteCAS}
	case errors.As(err, &failure):
		return &coordinator.WriteFailure{Consistency: failure.Consistency, Received: failure.Received,
			BlockFor: failure.BlockFor,
			Failures: failure.Failures, Type: coordinator.WriteCAS}
	}
	return err
}

package paxos

import (
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/paxos/ballot"
	"cqld/ring"
)

// attempts is the state of a round's present attempt that all phases use, and how attempts and the round end.
type attempts struct {
	contender
	poll

	topology *ring.Topology
	attempt  int           // incremented for every prepare; answers to earlier attempts are ignored
	ballot   ballot.Ballot // of the attempt
	previous ballot.Ballot // the ballot on which the attempt rests instead of promises
	proposal ballot.Proposal
	prior    ballot.Ballot // the latest decided ballot in the promises, or the low bound
	outcomes []outcome

	sent    time.Duration // when the requests of the phase were sent
	heard   int           // natural voters that answered the last phase of the last attempt
	lagging int           // natural voters that have promised and have not confirmed the missing commit
	// lacking is why the last attempt could not be planned, if replicas may come back.
	lacking error
	seen    int64 // the latest ballot of other proposers
	tries   int   // since the last success
}

// outcome is the answer to a member if the attempt succeeds.
type outcome struct {
	applied bool
	changes bool // the proposal contains a change of the member
	page    []byte
	err     error
}

type roundPhase uint8

const (
	phaseIdle roundPhase = iota // between attempts
	phasePreparing
	phasePreparedWork // missing commits, the read or the conditions are outstanding
	phaseSettling     // nothing will change; waiting for the last promises
	phaseAccepting
	phaseCommitting
)

// await sets the timer for the replicas' answers.
func (m *attempts) await() {
	m.sent = m.now
	// One timer covers all replicas: the phase fails when too few have answered by then.
	m.arm(alarmLate, m.timeout)
}

// shortenWait shortens the wait for the last votes after one was refused: another proposer is ahead, and an attempt
// with a later ballot needs only a majority. Otherwise a dead node that the failure detector has not noticed yet would
// delay the round by the whole timeout.
func (m *attempts) shortenWait() {
	// The wait is shortened once: a second refusal must not extend it again.
	if m.alarm.kind == alarmLate {
		m.arm(alarmSlow, min(max(lastVotesTrips*m.c.trips.Of(), lastVotesLeast), m.timeout))
	}
}

// again makes another attempt after a pause, for the members with time left. cause is the reason of the last failure,
// or CauseQueue if the attempt only completed another proposer's change.
func (m *attempts) again(out []effect, cause Cause, pause time.Duration) []effect {
	m.disarm()
	if m.heard = m.responses(); cause != CauseQueue || m.delay == CauseNone {
		m.delay = cause // work for another proposer does not hide why an earlier attempt failed
	}
	// The attempt was planned, so it did not fail because of an earlier lack of replicas.
	if cause != CauseUnavailable {
		m.lacking = nil
	}
	if cause != CauseQueue {
		for _, x := range m.members {
			// From now on the contention timeout limits the member (deadlineOf).
			x.failed = true
		}
	}
	m.rest()
	m.enterStage(StagePause, m.now)
	// A member whose time ends during the pause is answered now, not after it.
	if out = m.expire(out, m.now+pause); m.over {
		return out
	}
	m.arm(alarmResume, pause) // not on this stack, even without a pause
	return out
}

// rest ends the attempt. Later answers to it are ignored, and the round waits for its next alarm.
func (m *attempts) rest() {
	m.phase = phaseIdle
	m.attempt++
}

// expire answers the members whose deadline is not after at. No vote of an attempt is open.
func (m *attempts) expire(out []effect, at time.Duration) []effect {
	return m.answerOr(out, func(i int) error {
		switch {
		case at < m.deadlineOf(i):
			return nil
		case m.lacking != nil && m.delay == CauseUnavailable:
			// The members were waiting for replicas to come back, so Unavailable describes the failure better than a
			// time-out.
			return m.errorOf(i, m.lacking, m.voters.required())
		}
		return m.errorOf(i, m.timeoutAfter(m.heard), m.voters.required())
	})
}

// answerOr answers the members for which failure returns an error. If none is left, the round is over.
func (m *attempts) answerOr(out []effect, failure func(i int) error) []effect {
	before := len(out)
	out, left := m.answerSome(out, failure)
	// The alarm may have been set for a member that has just been answered.
	if len(out) > before {
		m.disarm()
	}
	if !left {
		return m.finish(out)
	}
	return out
}

// fail ends the round with an error for all members except those with a proposal in doubt and time left. Those look its
// outcome up in another attempt.
func (m *attempts) fail(out []effect, err error) []effect {
	// No proposal of the round may be decided, so the changes of its members were certainly not made.
	if len(m.own) == 0 {
		return m.conclude(out, nil, err)
	}
	m.rest()
	// The outcome is looked up by another attempt, whose promises show it.
	pause := m.pause()
	out = m.answerOr(out, func(i int) error {
		if m.own.of(i) != nil && m.now+pause < m.deadlineOf(i) {
			return nil
		}
		return m.errorOf(i, err, m.voters.required())
	})
	if m.over {
		return out
	}
	return m.again(out, m.cause(), pause)
}

// conclude answers all members, with outcomes or with the error that a failure has for each of them.
func (m *attempts) conclude(out []effect, outcomes []outcome, err error) []effect {
	if outcomes == nil {
		// Each member has its own error: an earlier proposal with its change may be in doubt.
		outcomes = make([]outcome, len(m.members))
		for i := range outcomes {
			outcomes[i].err = m.errorOf(i, err, m.voters.required())
		}
	}
	return m.finish(m.answerAll(out, outcomes, nil, m.cause()))
}

// finish ends the round, whose members have been answered, and starts the next one of the partition. A turn that is
// granted later is returned.
func (m *attempts) finish(out []effect) []effect {
	m.enterStage(StageNone, m.now)
	m.over = true
	m.disarm()
	// An answer to the last request no longer has its number, so a turn that comes late is returned (granted).
	m.turn.asked++
	// The turn is returned before the next round of this node starts, so that coordinators alternate.
	return append(m.passTurn(out), effect{kind: effectLeave})
}

// cancel answers a member whose change is certainly not made, and ends the round if no member is left. After a
// proposal, the round continues: otherwise the outcome of the change would be unknown.
func (m *attempts) cancel(x *member, out []effect) []effect {
	i := slices.Index(m.members, x)
	// After the promises, a proposal may be on its way at any moment.
	if i < 0 || x.answered || m.phase != phaseIdle && m.phase != phasePreparing || m.own.of(i) != nil {
		return out
	}
	// The member is marked and not removed, because members and outcomes have the same indices.
	m.mark(x)
	canceled := answer{member: x, outcome: outcome{err: env.ErrCanceled}, uncounted: true}
	out = append(out, effect{kind: effectAnswer, answers: []answer{canceled}})
	if m.left() > 0 {
		return out
	}
	return m.finish(out)
}

// lost answers the members whose proposals' outcomes cannot be determined, and restarts with the others.
func (m *attempts) lost(out []effect, commit *ballot.Proposal, lowBound ballot.Ballot) []effect {
	// Statement 8 in doubt.go.
	isLost := func(p *doubtful) bool {
		return FateOf(p.proposal.Origin, commit, lowBound) == Lost
	}
	m.rest()
	out = m.answerOr(out, func(i int) error {
		for at := range m.own {
			if p := &m.own[at]; p.outcomes[i].changes && isLost(p) {
				return p.unknown(m.serial, m.voters.required())
			}
		}
		return nil
	})
	if m.over {
		return out
	}
	// The others may still be determined by the next attempt.
	m.own = m.own.without(isLost)
	return m.again(out, CauseQueue, 0)
}

// mine reports whether the current proposal contains changes of this round's members.
func (m *attempts) mine() bool {
	// A proposal of another proposer that this round completes has an origin that the round never proposed.
	return m.proposal.Origin == m.ballot || m.own.proposedAt(m.proposal.Origin) >= 0
}

// doubt records that acceptors may have accepted the present proposal. This holds even if all have refused it: a
// duplicated message may have been accepted before its copy was refused. The next promises show the outcome.
func (m *attempts) doubt() {
	// An empty proposal changes nothing, so no member waits for its outcome.
	if m.phase != phaseAccepting || len(m.proposal.Update) == 0 {
		return
	}
	// With a majority it would be decided and not in doubt. The natural voters may have one while the replicas of
	// another ring do not.
	most := m.voters.required() - 1
	accepted, answered := min(m.received(), most), min(m.responses(), most)
	if at := m.own.proposedAt(m.proposal.Origin); at >= 0 { // it was in progress, so some acceptors had accepted it
		p := &m.own[at]
		// Refusals of the completion do not make it refused by all.
		p.accepted, p.answered, p.refused = accepted, answered, false
	} else if m.proposal.Origin == m.ballot {
		m.own = append(m.own, doubtful{
			proposal: m.proposal,
			outcomes: m.outcomes,
			refused:  !m.maybeAccepted(),
			accepted: accepted,
			answered: answered,
		})
	}
}

// recordSettled records that ballot b of this round is settled, with the latest decided change before it, so that the
// next round can rest on it.
func (m *attempts) recordSettled(b, prior ballot.Ballot, history ballot.History) {
	m.c.lastBallots.put(lastBallot{
		partition: m.partition,
		ballot:    b,
		prior:     prior,
		history:   history,
		epoch:     m.topology.Epoch(),
		serial:    m.serial,
	})
}

// pause returns the time before the next attempt. It is random, so that two competing proposers do not collide again,
// and it grows with each attempt.
func (m *attempts) pause() time.Duration {
	// The shift is bounded, because a duration overflows after some forty doublings.
	most := min(max(pauseFirst, m.c.trips.Of())<<min(m.tries, 10), pauseMost)
	m.tries++
	return most/4 + time.Duration(m.c.chance()%uint64(most))
}

// timedOut returns the error of a change that failed and certainly was not made, because voters did not answer the
// present phase. Voters that refused count as having answered; voters that lag have not confirmed the missing commit.
func (m *attempts) timedOut(behind int) error { return m.timeoutAfter(m.responses() - behind) }

// timeoutAfter returns the error of a change that failed and certainly was not made, after a number of responses. Like
// Cassandra, it limits the number to a quorum.
func (m *attempts) timeoutAfter(received int) error {
	required := m.voters.required()
	return &coordinator.WriteTimeout{
		Consistency: m.serial,
		Received:    min(max(received, 0), required),
		BlockFor:    required,
		Type:        coordinator.WriteCAS,
		Contentions: m.contentions,
	}
}

package paxos

import (
	"time"

	"cqld/internal/invariant"
	"cqld/paxos/ballot"
)

// checkpoint contains the values that must never decrease, as of the last check of a machine.
type checkpoint struct {
	attempt int
	ballot  ballot.Ballot
	seen    int64
	now     time.Duration
}

// checkInvariants stops the program if a step has broken an invariant of the round (doc.go).
func (m *machine) checkInvariants() {
	// Invariant 1. The latest ballot seen of other proposers must not decrease either, or the next attempt would lose
	// again.
	last := &m.checked
	invariant.Check(m.attempt >= last.attempt, "paxos: the attempt moved back")
	invariant.Check(!last.ballot.After(m.ballot), "paxos: the ballot moved back")
	invariant.Check(m.now >= last.now, "paxos: the time of events moved back")
	invariant.Check(m.seen >= last.seen, "paxos: the latest ballot of others moved back")
	*last = checkpoint{attempt: m.attempt, ballot: m.ballot, seen: m.seen, now: m.now}

	// Invariant 2.
	natural := len(m.voters.natural)
	invariant.Check(m.received() <= m.responses(), "paxos: more agree than answer")
	invariant.Check(m.responses() <= natural, "paxos: more answers than voters")
	invariant.Check(m.lagging >= 0 && m.lagging <= natural, "paxos: acceptors that are behind are not voters")
	// Invariant 5. The remaining ones are about rounds that have not ended.
	if m.over {
		invariant.Check(m.left() == 0, "paxos: a round ends with members that wait")
		invariant.Check(m.turn.Ticket == 0, "paxos: a round ends with its turn")
		invariant.Check(m.alarm.kind == alarmNone, "paxos: a round ends with an alarm")
		return
	}
	m.checkPhase()
	for i := range m.own {
		// Invariant 4.
		p := &m.own[i]
		invariant.Check(!p.proposal.Origin.After(m.ballot), "paxos: a proposal in doubt is later than the attempt")
		invariant.Check(len(p.outcomes) == len(m.members), "paxos: a proposal in doubt of other members")
		invariant.Check(p.accepted <= p.answered, "paxos: more accept than answer")
	}
}

// checkPhase checks what holds in the phase of a round that has not ended (invariants 3 and 6).
func (m *machine) checkPhase() {
	switch m.phase {
	case phaseIdle: // something continues the round
		invariant.Check(m.alarm.kind == alarmResume || m.alarm.kind == alarmTurn && m.turn.waiting,
			"paxos: an idle round waits for nothing")
	case phasePreparing, phaseSettling:
		invariant.Check(m.armed(), "paxos: a round waits for promises forever")
	case phaseAccepting:
		invariant.Check(m.armed(), "paxos: a round waits for acceptances forever")
		p := &m.proposal
		invariant.Check(p.Ballot == m.ballot, "paxos: the proposal has the ballot of another attempt")
		invariant.Check(!p.Origin.After(p.Ballot), "paxos: a proposal is older than its origin")
		invariant.Check(p.Ballot.After(p.Prior), "paxos: a proposal is not after the latest decided one")
		invariant.Check(p.Ballot.After(p.Previous), "paxos: a proposal is not after the ballot on which it rests")
	case phaseCommitting:
		invariant.Check(m.early || m.left() > 0, "paxos: a commit for no member")
	case phasePreparedWork:
		invariant.Check(m.enough(isYes), "paxos: conditions without a quorum of promises")
	}
}

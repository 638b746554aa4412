package paxos

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
	"cqld/paxos/ballot"
	"cqld/ring"
)

// ballotAt returns the ballot of a node at a time (µs).
func ballotAt(micros int64, node int) ballot.Ballot {
	return ballot.Ballot{Micros: micros, Node: ring.NodeID(node)}
}

// accepting returns the machine of one change that waits for the acceptances of three voters.
func accepting() *machine {
	m := new(machine)
	m.c = new(Proposer)
	m.members = []*member{{req: &CASRequest{}}}
	m.voters = electorate{natural: []ring.NodeID{1, 2, 3}}
	m.votes = []vote{{node: 1, state: voteYes}, {node: 2}, {node: 3}}
	m.attempt, m.ballot, m.seen, m.now = 1, ballotAt(10, 1), 5, 1
	m.proposal = ballot.Proposal{Ballot: m.ballot, Origin: m.ballot, Prior: ballotAt(5, 2)}
	m.outcomes = []outcome{{changes: true}}
	m.phase = phaseAccepting
	m.arm(alarmLate, 1)
	m.checkInvariants()
	return m
}

// in returns such a machine in another phase, with an alarm that ends it.
func in(phase roundPhase) *machine {
	m := accepting()
	m.phase = phase
	m.arm(alarmResume, 1)
	return m
}

// ended returns such a machine after its end.
func ended() *machine {
	m := accepting()
	m.members[0].answered, m.over = true, true
	m.disarm()
	return m
}

// doubting returns such a machine with a proposal in doubt.
func doubting() *machine {
	m := accepting()
	m.own = doubts{{proposal: m.proposal, outcomes: m.outcomes}}
	return m
}

// TestInvariantsFire breaks each invariant of a round, as a fault in a step would.
func TestInvariantsFire(t *testing.T) {
	for name, test := range map[string]struct {
		m      *machine
		breaks func(*machine)
		want   string
	}{
		"attempt":         {accepting(), func(m *machine) { m.attempt-- }, "attempt moved back"},
		"ballot":          {accepting(), func(m *machine) { m.ballot = ballotAt(9, 1) }, "ballot moved back"},
		"ballot of other": {accepting(), func(m *machine) { m.seen-- }, "ballot of others moved back"},
		"time":            {accepting(), func(m *machine) { m.now-- }, "time of events moved back"},
		"tally": {accepting(), func(m *machine) {
			m.votes = append(m.votes, make([]vote, 3)...)
			for i := range m.votes {
				m.votes[i] = vote{node: 1, state: voteNo}
			}
		}, "more answers than voters"},
		"fewer behind": {accepting(), func(m *machine) { m.lagging = -1 }, "behind are not voters"},
		"more behind":  {accepting(), func(m *machine) { m.lagging = 4 }, "behind are not voters"},
		"unanswered":   {ended(), func(m *machine) { m.members[0].answered = false }, "members that wait"},
		"turn":         {ended(), func(m *machine) { m.turn.Ticket = 1 }, "ends with its turn"},
		"alarm":        {ended(), func(m *machine) { m.arm(alarmLate, 1) }, "ends with an alarm"},
		"idle":         {in(phaseIdle), func(m *machine) { m.disarm() }, "waits for nothing"},
		"wait for a turn": {in(phaseIdle), func(m *machine) { m.arm(alarmTurn, 1) },
			"waits for nothing"},
		"promises":        {in(phasePreparing), func(m *machine) { m.disarm() }, "waits for promises forever"},
		"last promises":   {in(phaseSettling), func(m *machine) { m.alarm.phase = phaseIdle }, "for promises forever"},
		"acceptances":     {accepting(), func(m *machine) { m.disarm() }, "waits for acceptances forever"},
		"another attempt": {accepting(), func(m *machine) { m.proposal.Ballot = ballotAt(9, 1) }, "of another attempt"},
		"origin":          {accepting(), func(m *machine) { m.proposal.Origin = ballotAt(11, 1) }, "older than its"},
		"decided":         {accepting(), func(m *machine) { m.proposal.Prior = ballotAt(10, 2) }, "latest decided one"},
		"previous":        {accepting(), func(m *machine) { m.proposal.Previous = ballotAt(12, 1) }, "it rests"},
		"commit": {in(phaseCommitting), func(m *machine) { m.members[0].answered = true },
			"a commit for no member"},
		"conditions":       {in(phasePreparedWork), func(*machine) {}, "without a quorum of promises"},
		"later doubt":      {doubting(), func(m *machine) { m.own[0].proposal.Origin = ballotAt(11, 1) }, "later than"},
		"doubt of others":  {doubting(), func(m *machine) { m.own[0].outcomes = nil }, "of other members"},
		"doubt in numbers": {doubting(), func(m *machine) { m.own[0].accepted = 1 }, "more accept than answer"},
	} {
		t.Run(name, func(t *testing.T) {
			test.breaks(test.m)
			invarianttest.Fires(t, test.m.checkInvariants, test.want)
		})
	}
}

// TestStepsRefuseWhatPaxosForbids calls steps of proposers in states that do not allow them.
func TestStepsRefuseWhatPaxosForbids(t *testing.T) {
	for name, test := range map[string]struct {
		step func()
		want string
	}{
		"two answers": {func() {
			m := ended()
			m.mark(m.members[0])
		}, "answered twice"},
		"end of a request that did not begin": {func() { new(queues).answered(1) }, "more requests end than began"},
		"proposal without promises": {func() { in(phaseIdle).propose(nil, ballotAt(10, 1), nil) },
			"without a quorum"},
		"commit before a quorum accepts": {func() { accepting().commit(nil, ring.Quorum) }, "no quorum accepted"},
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, test.step, test.want) })
	}
}

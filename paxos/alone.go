package paxos

import (
	"errors"

	"cqld/coordinator"
	"cqld/paxos/ballot"
	"cqld/row"
)

// If this node is the only voter, and no other node is becoming one, no promise is needed. The acceptor of this node
// serializes the round, from the read to the write, with the requests of other nodes, and writes the change and its
// ballot in one batch with one sync.

// alone reports whether this node is the only voter and holds the partition, and no proposal of the round is in doubt,
// which a prepare would look up. At LOCAL_SERIAL, the only voter of a data center may not be the only replica: then the
// other replicas must receive the change, and the consistency level must be met.
func (m *machine) alone() bool {
	v, self := &m.voters, m.c.view.Self()
	if len(v.natural) != 1 || len(v.pending) > 0 || len(v.others) > 0 || v.natural[0] != self ||
		m.crowded || len(m.own) > 0 {
		return false
	}
	return coordinator.OnlySelf(self, m.topology, m.table, m.cmd.Key.Token)
}

// decideAlone makes an attempt in one step of this node's acceptor.
func (m *machine) decideAlone(out []effect) []effect {
	m.phase = phaseCommitting
	m.enter(StageCommit, m.now)
	return append(out, effect{
		kind:    effectAlone,
		attempt: m.attempt,
		epoch:   m.topology.Epoch(),
		cmd:     m.cmd,
		trace:   m.tracer(),
	})
}

// aloneQuestion returns the conditions to be evaluated on what the acceptor has read.
func (m *machine) aloneQuestion(known *ballot.Known, page []byte) *question {
	m.ballot = m.c.ballot(max(m.seen, known.Latest.Micros), m.span())
	return m.question(page)
}

// aloneProposal returns the proposal of the changes to be made; nil if there are none.
func (m *machine) aloneProposal(known *ballot.Known, a *verdict) *ballot.Proposal {
	if m.accept(a); a.tooMuch || a.update == nil {
		return nil
	}
	m.proposal = ballot.Proposal{
		Ballot:  m.ballot,
		Origin:  m.ballot,
		Prior:   known.Prior,
		History: known.History,
		Table:   m.cmd.Table,
		Key:     m.cmd.Key,
	}
	p := m.proposal
	return &p
}

// aloneEnded is the event that the acceptor has decided, or has failed.
func (m *machine) aloneEnded(ev *event, out []effect) []effect {
	err := ev.err
	if errors.Is(err, ballot.ErrInDoubt) {
		m.proposal.Update = row.AppendMutation(nil, ev.verdict.update)
		m.own = append(m.own, doubtful{proposal: m.proposal, outcomes: m.outcomes})
	}
	var overloaded *coordinator.Overloaded
	switch {
	case err == nil && ev.verdict.tooMuch:
		return m.split(out)
	case err == nil:
		m.c.counts.alone.Add(1)
		return m.conclude(out, m.outcomes, nil)
	case errors.Is(err, ballot.ErrUnsettled):
		m.crowded = true
		return m.again(out, CauseContention, 0)
	case isNotReplica(err) && m.plans < m.c.limits.PlansMax:
		return m.replan(out)
	case errors.As(err, &overloaded):
		m.c.counts.overloaded.Add(1)
		return m.fail(out, overloaded)
	case coordinator.Silent(err):
		return m.fail(out, m.timedOut(0))
	}
	return m.fail(out, &coordinator.WriteFailure{
		Consistency: m.serial,
		BlockFor:    1,
		Type:        coordinator.WriteCAS,
		Failures:    []coordinator.NodeFailure{{Node: m.voters.natural[0], Reason: coordinator.ReasonOf(err)}},
	})
}

// decideAlone performs effectAlone. While the conditions are evaluated, the acceptor admits no other change of the
// partition, and the lock of the round is free.
func (r *round) decideAlone(e *effect) {
	attempt := e.attempt
	coordinator.AddContact(e.trace, r.c.view.Self())
	var a verdict
	r.c.acceptors.Decide(e.epoch, e.cmd, func(known ballot.Known, page []byte) (*ballot.Proposal, *row.Mutation) {
		r.mu.Lock()
		if r.over || r.attempt != attempt {
			r.mu.Unlock()
			return nil, nil
		}
		q := r.aloneQuestion(&known, page)
		r.mu.Unlock()
		a = q.ask()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.over || r.attempt != attempt {
			return nil, nil
		}
		return r.aloneProposal(&known, &a), a.update
	}, func(err error) { r.deliver(&event{kind: eventAlone, attempt: attempt, verdict: a, err: err}) })
}

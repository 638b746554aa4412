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

// alone reports whether this node is the only voter and holds the partition, and no proposal of the round is in
// doubt. The outcome of one in doubt can only be looked up with a prepare. At LOCAL_SERIAL, the only voter of a data
// center may not be the only replica: then the other replicas must receive the change, and the consistency level must
// be met.
func (m *machine) alone() bool {
	// A pending replica, or one of the ring before or after the change, would have to vote, too.
	v, self := &m.voters, m.c.view.Self()
	if len(v.natural) != 1 || len(v.pending) > 0 || len(v.others) > 0 || v.natural[0] != self ||
		m.foundProposal || len(m.own) > 0 {
		return false
	}
	// The batch commits on this node only, so no other replica may need the change.
	return coordinator.OnlySelf(self, m.topology, m.table, m.cmd.Key.Token)
}

// decideAlone makes an attempt in one step of this node's acceptor.
func (m *machine) decideAlone(out []effect) []effect {
	// From here on the change may be decided at any moment, so the round can no longer be canceled.
	m.phase = phaseCommitting
	m.enterStage(StageCommit, m.now)
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
	// Only the acceptor knows the latest ballot, so this ballot is drawn while the acceptor holds the partition.
	m.ballot = m.c.ballot(max(m.seen, known.Latest.Micros), m.span())
	return m.question(page)
}

// aloneProposal returns the proposal of the changes to be made; nil if there are none.
func (m *machine) aloneProposal(known *ballot.Known, a *verdict) *ballot.Proposal {
	// Without a change no ballot is recorded, and the partition keeps its state.
	if m.accept(a); a.tooMuch || a.update == nil {
		return nil
	}
	// The proposal has no update: the batch contains the mutation itself, and there is no other acceptor that may
	// need it.
	m.proposal = ballot.Proposal{
		Ballot:  m.ballot,
		Origin:  m.ballot,
		Prior:   known.Prior,
		History: known.History,
		Table:   m.cmd.Table,
		Key:     m.cmd.Key,
	}
	// The proposal is copied, because the acceptor retains it while the machine may move on to another one.
	p := m.proposal
	return &p
}

// aloneEnded handles the event that the acceptor has decided, or has failed.
func (m *machine) aloneEnded(ev *event, out []effect) []effect {
	err := ev.err
	if errors.Is(err, ballot.ErrInDoubt) {
		// The write may have reached the disk. The next attempt uses promises to find out, and needs the update to
		// complete the proposal.
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
		// A round with promises finishes the proposal. It may be from a time when the partition had more voters.
		m.foundProposal = true
		return m.again(out, CauseContention, 0)
	case isNotReplica(err) && m.plans < m.c.limits.PlansMax:
		return m.replan(out)
	case errors.As(err, &overloaded):
		m.c.counts.overloaded.Add(1)
		return m.fail(out, overloaded)
	case coordinator.Silent(err):
		// If the write had begun, the error would be ErrInDoubt, and fail looks the outcome up.
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
		// The round has ended or tried again since, for example after a panic. A nil proposal changes nothing.
		if r.over || r.attempt != attempt {
			r.mu.Unlock()
			return nil, nil
		}
		q := r.aloneQuestion(&known, page)
		r.mu.Unlock()
		// Conditions are code of requests: they run without the lock of the round.
		a = q.ask()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.over || r.attempt != attempt {
			return nil, nil
		}
		// The assignment to a is read by the callback below, which follows in all cases.
		return r.aloneProposal(&known, &a), a.update
	}, func(err error) { r.deliver(&event{kind: eventAlone, attempt: attempt, verdict: a, err: err}) })
}

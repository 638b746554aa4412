package paxos

import (
	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/internal/wire"
	"cqld/paxos/ballot"
	"cqld/ring"
	"cqld/row"
)

// propose sends the proposal to the voters. origin is the ballot of its first proposer.
func (m *machine) propose(out []effect, origin ballot.Ballot, update []byte) []effect {
	invariant.Check(m.phase == phasePreparing || m.phase == phasePreparedWork || m.phase == phaseSettling,
		"paxos: a proposal without a quorum of promises, in phase %d", m.phase)
	m.phase = phaseAccepting
	m.enterStage(StagePropose, m.now)
	m.proposal = ballot.Proposal{
		Ballot:   m.ballot,
		Origin:   origin,
		Prior:    m.prior,
		History:  m.history,
		Previous: m.previous,
		Table:    m.cmd.Table,
		Key:      m.cmd.Key,
		Update:   update,
	}
	// A voter that did not promise may still accept, so all voters are asked.
	m.reopen()
	// Some voters died since their promises.
	if m.hopeless() {
		return m.outvoted(out)
	}
	if m.previous.Present() {
		m.c.counts.unprepared.Add(1)
	}
	m.await()
	p := m.proposal // the machine may have another one when this one is sent
	return append(out, effect{
		kind:     effectPropose,
		attempt:  m.attempt,
		nodes:    m.open(),
		epoch:    m.topology.Epoch(),
		proposal: &p,
		timeout:  m.timeout,
		trace:    m.tracer(),
	})
}

// voted handles an acceptor's answer to a proposal.
func (m *machine) voted(ev *event, out []effect) []effect {
	v := m.of(ev.node)
	switch {
	case ev.err != nil:
		v.state, v.err = voteFailed, ev.err
	case ev.refused.Present():
		v.state = voteNo
		// The next attempt must have a later ballot than the one for which the acceptor refused.
		m.seen = max(m.seen, ev.refused.Micros)
		m.shortenWait()
	default:
		v.state = voteYes
	}
	switch {
	case m.hasQuorum():
		m.c.trips.Record(m.now - m.sent)
		// A majority has accepted. The remaining answers change nothing, and the commit does not wait for them.
		return m.decided(out)
	case m.hopeless():
		return m.outvoted(out)
	}
	return out
}

// decided continues when a quorum has accepted.
func (m *machine) decided(out []effect) []effect {
	mine := m.mine()
	if !mine || len(m.proposal.Update) == 0 {
		m.own = nil // any of them that was not decided before this ballot is void
	}
	switch {
	case len(m.proposal.Update) > 0 && mine:
		return m.commit(out, m.level)
	case len(m.proposal.Update) > 0:
		// The level that the other coordinator's client requires is unknown here. A quorum suffices for the next
		// proposal.
		return m.commit(out, plainLevel(m.serial))
	}
	// An empty proposal needs no commit, because it changes no row.
	m.recordSettled(m.ballot, m.prior, m.history)
	if m.superseding {
		// The proposals in doubt are void now, so their members are attempted again.
		m.superseding = false
		return m.again(out, CauseQueue, 0)
	}
	return m.conclude(out, m.outcomes, nil)
}

// commit writes the decided proposal to all replicas as an ordinary write.
func (m *machine) commit(out []effect, level ring.Consistency) []effect {
	invariant.Check(m.phase == phaseAccepting && m.hasQuorum() || m.phase == phaseCommitting ||
		m.own.proposedAt(m.proposal.Origin) >= 0, "paxos: a commit of a proposal that no quorum accepted")
	m.phase, m.commitLevel = phaseCommitting, level
	m.enterStage(StageCommit, m.now)
	// The alarm is removed, because the write has its own timeout.
	m.disarm()
	p := m.proposal
	p.Table, p.Key = m.cmd.Table, m.cmd.Key
	if at := m.own.proposedAt(p.Origin); at >= 0 {
		// The members receive the outcomes of the attempt that made the proposal; this attempt has perhaps not
		// evaluated the conditions again.
		m.outcomes = m.own[at].outcomes
	}
	var accepted []ring.NodeID
	// The proposal was accepted in this attempt, so the other acceptors have been sent it as well.
	if p.Ballot == m.ballot {
		accepted = make([]ring.NodeID, 0, len(m.votes))
		for i := range m.votes {
			if v := &m.votes[i]; v.state == voteYes || v.state == voteOpen {
				accepted = append(accepted, v.node)
			}
		}
	}
	// At ANY, the client does not wait for the commit.
	if m.early = m.mine() && level == ring.Any; m.early {
		out = m.answerAll(out, m.outcomes, nil, CauseNone)
	}
	out = append(out, effect{
		kind:     effectCommit,
		attempt:  m.attempt,
		proposal: &p,
		accepted: accepted,
		level:    level,
		timeout:  m.timeout,
		trace:    m.tracer(),
	})
	// When the commit was sent, the acceptors answer the next coordinator's prepare after they have applied it.
	return m.passTurn(out)
}

// committed handles the end of the write of the decided change.
func (m *machine) committed(err error, out []effect) []effect {
	mine, p := m.mine(), &m.proposal
	switch {
	case m.early:
		// The members have been answered already. The coordinator has stored hints for replicas that failed.
		return m.finish(out)
	case !mine && err != nil: // whether or not all writes succeeded, the next promises show the state
		return m.again(out, CauseCommit, m.pause())
	case !mine:
		return m.again(out, CauseQueue, 0)
	case notSent(err):
		// Other nodes may come back, so the commit is repeated while there is time left.
		pause := m.pause()
		if m.now+pause < m.lastTimeout() {
			m.enterStage(StagePause, m.now)
			m.arm(alarmCommit, pause)
			return out
		}
	}
	m.own = nil // it is decided, whether or not this write succeeds
	if err == nil && quorate(m.commitLevel, m.serial) && p.Ballot == m.ballot {
		// Statement P in previous.go: the change is at a quorum of the voters.
		m.recordSettled(p.Ballot, p.Ballot, p.History.With(p.Origin))
	}
	err = m.decidedButFailed(err)
	return m.finish(m.answerAll(out, m.outcomes, err, CauseCommit))
}

// decidedButFailed returns the error of a decided change whose write failed. ErrNotSent applies to this write, but not
// to the change, which the next proposer of the partition completes. Nothing was sent, so no replica has responded.
func (m *machine) decidedButFailed(err error) error {
	if !notSent(err) {
		return err
	}
	// The coordinator has not counted this time-out, because it considers the write as not sent.
	m.c.counts.writeTimeouts.Add(1)
	return &coordinator.WriteTimeout{
		Consistency: m.commitLevel,
		BlockFor:    m.commitLevel.BlockFor(m.table.Replication, m.c.localDC),
		Type:        coordinator.WriteSimple,
	}
}

// mutationRest is the size of an encoded mutation without its rows: table, key and lengths.
const mutationRest = 128

// encoded returns the update of a proposal.
func encoded(update *row.Mutation) []byte {
	// The buffer is allocated once, because an update may have a megabyte.
	return row.AppendMutation(make([]byte, 0, update.Size()+mutationRest), update)
}

// mutationIn returns the mutation of a proposal's update, which points into it.
func mutationIn(update []byte) *row.Mutation {
	m := new(row.Mutation)
	c := wire.NewCursor(update)
	row.ConsumeMutation(&c, m)
	return m
}

package paxos

import (
	"cqld/paxos/ballot"
)

// promised is the event of an acceptor's answer to prepare. Those that a quorum did not need matter to a round that
// changes nothing.
func (m *machine) promised(ev *event, out []effect) []effect {
	v := m.of(ev.node)
	open := m.phase == phasePreparing
	switch {
	case ev.err != nil:
		v.failed = true
		if open {
			v.state, v.err = voteFailed, ev.err
		}
	case ev.promise.Refused:
		v.failed = true
		m.seen = max(m.seen, ev.promise.Promised.Micros)
		if open {
			v.state = voteNo
			m.hurry()
		}
	default:
		if open {
			v.state = voteYes
		}
		v.take(ev.promise)
	}
	switch {
	case m.phase == phaseSettling:
		return m.decline(out)
	case !open:
		return out
	case m.carried():
		m.c.trips.Record(m.now - m.sent)
		return m.prepared(out)
	case m.hopeless():
		return m.outvoted(out)
	}
	return out
}

// prepared continues when a quorum has promised. It completes a proposal in progress, sends a missing commit, or
// evaluates the conditions, in this order.
func (m *machine) prepared(out []effect) []effect {
	m.enter(StageRead, m.now)
	if m.previous.Present() {
		if m.enough(isUnchanged) {
			m.phase = phasePreparedWork
			return m.read(out)
		}
		if !m.enough(isPromise) { // other proposers interfered: some acceptors promised, for others it was unnecessary
			m.contended()
			return m.again(out, CauseContention, 0)
		}
		m.previous = ballot.Ballot{}
		for i := range m.votes {
			if v := &m.votes[i]; v.unchanged {
				v.state = voteFailed // this is not a promise
			}
		}
	}
	accepted, commit := m.inProgress()
	floor := m.floor()
	prior := commit.Ballot.Latest(floor)
	decided, lost := m.own.resolve(m.c, &commit, floor)
	m.history = ballot.HistoryAfter(&commit, floor)
	switch {
	case decided >= 0:
		m.proposal = m.own[decided].proposal
		return m.commit(out, m.level)
	case lost:
		return m.lost(out, &commit, floor)
	case len(accepted.Update) > 0 && !m.c.unsafe.NoRepair:
		out = m.note(out, "Finishing incomplete Paxos round")
		m.c.counts.finished.Add(1)
		m.prior = prior
		return m.propose(out, accepted.Origin, accepted.Update)
	case m.ballot.Micros-m.span() < prior.Micros: // all timestamps must be after the prior ballot
		m.seen = max(m.seen, prior.Micros)
		return m.again(out, CauseQueue, 0)
	}
	m.prior = prior
	return m.bring(out, commit)
}

// bring sends the latest decided change to the acceptors of the quorum that lack it, and waits: the next proposal must
// not hide it. Then it reads again: the pages of those promises lack the change, and so may the page of a pending
// replica, which receives the acceptors' state before the rows.
func (m *machine) bring(out []effect, commit ballot.Proposal) []effect {
	m.phase = phasePreparedWork
	missing, natural := m.behindOf(commit.Ballot)
	if len(missing) == 0 {
		return m.read(out)
	}
	m.c.counts.commitsSent.Add(1)
	m.absent, m.behind = len(missing), natural
	m.await()
	commit.Table, commit.Key = m.cmd.Table, m.cmd.Key
	return append(out, effect{
		kind:     effectBring,
		attempt:  m.attempt,
		nodes:    missing,
		epoch:    m.topology.Epoch(),
		proposal: &commit,
		timeout:  m.timeout,
		trace:    m.tracer(),
	})
}

// brought is the event of an acceptor's answer to the missing commit.
func (m *machine) brought(ev *event, out []effect) []effect {
	if ev.err != nil {
		return m.retry(out, ev.err)
	}
	if m.isNatural(ev.node) {
		m.behind--
	}
	if m.absent--; m.absent > 0 {
		return out
	}
	return m.readAgain(out, "Missing commits were sent: reading at quorum")
}

// read determines the content at a quorum: the page that all promises contain or, if the pages differ, the result of an
// ordinary read with read repair.
func (m *machine) read(out []effect) []effect {
	page, equal := m.page()
	if !equal {
		return m.readAgain(out, "Promises came with different rows: reading at quorum")
	}
	return m.evaluate(out, page)
}

// readAgain reads at a quorum, with repairs. activity is the event in the trace.
func (m *machine) readAgain(out []effect, activity string) []effect {
	m.reread = true
	m.c.counts.rereads.Add(1)
	m.disarm() // the read has the same deadline, and its error the number of replicas that answered
	return append(m.note(out, activity), effect{
		kind:    effectRead,
		attempt: m.attempt,
		cmd:     m.cmd,
		level:   plainLevel(m.serial),
		timeout: m.timeout,
		trace:   m.tracer(),
	})
}

// pageRead is the event that the read at a quorum ended.
func (m *machine) pageRead(ev *event, out []effect) []effect {
	switch {
	case lacksMemory(ev.err) && len(m.members) > 1:
		return m.split(out)
	case ev.err != nil:
		return m.fail(out, ev.err)
	}
	return m.evaluate(out, append([]byte{}, ev.page...))
}

// evaluate asks for the conditions, which are code of the requests.
func (m *machine) evaluate(out []effect, page []byte) []effect {
	return append(out, effect{kind: effectEvaluate, attempt: m.attempt, question: m.question(page)})
}

// evaluated is the event that the conditions were evaluated. It proposes their changes.
func (m *machine) evaluated(a *verdict, out []effect) []effect {
	m.accept(a)
	switch {
	case a.tooMuch:
		return m.split(out)
	case m.allFail(m.outcomes, m.voters.required()):
		return m.conclude(out, m.outcomes, nil)
	case nothingApplies(m.outcomes):
		return m.decline(out)
	case a.update == nil:
		return m.propose(out, m.ballot, nil)
	}
	if err := m.commitUnavailable(); err != nil {
		return m.refuseCommit(out, err)
	}
	return m.propose(out, m.ballot, encoded(a.update))
}

// decline answers that nothing was changed, if all voters are known to hold no proposal that could still be decided. It
// waits briefly for the last voters. Otherwise it first proposes an empty change, which makes their proposals void.
func (m *machine) decline(out []effect) []effect {
	certain, possible := m.settled(m.previous.Present())
	if m.reread || m.own.open() {
		certain, possible = false, false
	}
	switch {
	case certain, m.c.unsafe.NoRepair:
		if certain && m.previous.Present() {
			m.settle(m.previous, m.prior, m.history)
		} else if certain {
			m.settle(m.ballot, m.prior, m.history)
		}
		return m.conclude(out, m.outcomes, nil)
	case !possible:
		return m.propose(out, m.ballot, nil)
	case m.phase == phaseSettling:
		return out
	}
	m.phase = phaseSettling
	m.arm(alarmSettle, settleWait)
	return out
}

// split restarts with the first half of the members, because the rows of all members are too large for one read.
func (m *machine) split(out []effect) []effect {
	if !m.putBackAfter((len(m.members)+1)/2 - 1) {
		return m.supersede(out)
	}
	if m.left() == 0 { // they were canceled
		return m.end(out)
	}
	m.enroll(m.members)
	return m.again(out, CauseQueue, 0)
}

// supersede proposes an empty change, whose decision makes the proposals in doubt void, and then restarts.
func (m *machine) supersede(out []effect) []effect {
	m.superseding = true
	return m.propose(out, m.ballot, nil)
}

// retry retries after a failure of work between the votes.
func (m *machine) retry(out []effect, err error) []effect {
	if isNotReplica(err) {
		m.c.counts.replans.Add(1)
	}
	return m.again(out, CauseRead, m.pause())
}

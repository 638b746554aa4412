package paxos

import (
	"cqld/paxos/ballot"
)

// promised handles an acceptor's answer to prepare. Answers beyond a quorum matter to a round that changes nothing
// (decline).
func (m *machine) promised(ev *event, out []effect) []effect {
	v := m.of(ev.node)
	open := m.phase == phasePreparing
	switch {
	case ev.err != nil:
		// This voter will not promise in this attempt, whatever the phase.
		v.failed = true
		// In later phases, state counts the votes of that phase.
		if open {
			v.state, v.err = voteFailed, ev.err
		}
	case ev.promise.Refused:
		v.failed = true
		// The next attempt must be later than what stood against this one.
		m.seen = max(m.seen, ev.promise.Promised.Micros)
		if open {
			v.state = voteNo
			// An acceptor that has promised a later ballot never accepts this one.
			m.shortenWait()
		}
	default:
		if open {
			v.state = voteYes
		}
		v.record(ev.promise)
	}
	switch {
	// This may be the last promise for which phaseSettling waits.
	case m.phase == phaseSettling:
		return m.decline(out)
	case !open:
		return out
	case m.hasQuorum():
		// The round trip to a quorum scales the pauses of contending rounds.
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
	m.enterStage(StageRead, m.now)
	if m.previous.Present() {
		if m.enough(isUnchanged) {
			m.phase = phasePreparedWork
			return m.read(out)
		}
		if !m.enough(isPromise) { // other proposers interfered: some acceptors promised, for others it was unnecessary
			m.contended()
			return m.again(out, CauseContention, 0)
		}
		// A quorum has promised after all, so the proposal rests on promises, as if there had been no previous ballot.
		m.previous = ballot.Ballot{}
		for i := range m.votes {
			if v := &m.votes[i]; v.unchanged {
				v.state = voteFailed // an unchanged vote is not a promise
			}
		}
	}
	accepted, commit := m.inProgress()
	lowBound := m.lowBound()
	// Nothing was decided between the commit and a later low bound: everything up to the low bound is purged or
	// known.
	prior := commit.Ballot.Latest(lowBound)
	decided, lost := m.own.resolve(m.c, &commit, lowBound)
	m.history = ballot.HistoryAfter(&commit, lowBound)
	switch {
	case decided >= 0:
		// Its commit may have reached no replica, or another proposer may have completed it; writing it again is
		// harmless in both cases.
		m.proposal = m.own[decided].proposal
		return m.commit(out, m.level)
	case lost:
		return m.lost(out, &commit, lowBound)
	case len(accepted.Update) > 0:
		out = m.note(out, "Finishing incomplete Paxos round")
		m.c.counts.finished.Add(1)
		m.prior = prior
		// Under this ballot, with its own origin and timestamps: a replica that has the change gets no other version of
		// it.
		return m.propose(out, accepted.Origin, accepted.Update)
	case m.ballot.Micros-m.span() < prior.Micros: // all timestamps must be after the prior ballot
		m.seen = max(m.seen, prior.Micros)
		// The next attempt has a later ballot. The cause is CauseQueue, because no other proposer is ahead.
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
	missing, natural := m.laggingOf(commit.Ballot)
	if len(missing) == 0 {
		return m.read(out)
	}
	m.c.counts.commitsSent.Add(1)
	m.absent, m.lagging = len(missing), natural
	// Every phase has the whole timeout.
	m.await()
	// A promise does not repeat the partition of its request.
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

// brought handles an acceptor's answer to the missing commit.
func (m *machine) brought(ev *event, out []effect) []effect {
	if ev.err != nil {
		// Every acceptor of the quorum must have it, so that any later quorum shows it.
		return m.retry(out, ev.err)
	}
	if m.isNatural(ev.node) {
		m.lagging--
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
		// Either page may be the old one, and a repair must precede the decision on it.
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

// pageRead handles the result of the read at a quorum.
func (m *machine) pageRead(ev *event, out []effect) []effect {
	switch {
	case lacksMemory(ev.err) && len(m.members) > 1:
		// Half of the members need about half of the memory.
		return m.split(out)
	case ev.err != nil:
		return m.fail(out, ev.err)
	}
	// The page is valid only during the callback.
	return m.evaluate(out, append([]byte{}, ev.page...))
}

// evaluate requests the evaluation of the conditions. They are code of the requests, so the shell runs them.
func (m *machine) evaluate(out []effect, page []byte) []effect {
	return append(out, effect{kind: effectEvaluate, attempt: m.attempt, question: m.question(page)})
}

// evaluated handles the result of the conditions, and proposes the changes.
func (m *machine) evaluated(a *verdict, out []effect) []effect {
	m.accept(a)
	switch {
	case a.tooMuch:
		return m.split(out)
	case m.allFail(m.outcomes, m.voters.required()):
		// Every member failed with an error of its request, so there is nothing to decide.
		return m.conclude(out, m.outcomes, nil)
	case nothingApplies(m.outcomes):
		return m.decline(out)
	case a.update == nil:
		// A condition holds, and its change is empty: an empty proposal takes its place in the order of changes.
		return m.propose(out, m.ballot, nil)
	}
	// Checked before the proposal, which could be decided even if its commit cannot be acknowledged.
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
		// A page that was read again may be newer than the promises, and a proposal in doubt must become void before
		// its members are answered.
		certain, possible = false, false
	}
	switch {
	case certain:
		if m.previous.Present() {
			// No acceptor promised the new ballot, so the previous one is still the last.
			m.recordSettled(m.previous, m.prior, m.history)
		} else {
			m.recordSettled(m.ballot, m.prior, m.history)
		}
		return m.conclude(out, m.outcomes, nil)
	case !possible:
		// The answer is that nothing was changed. It is linearizable only when nothing that was in progress can be
		// decided later with an earlier ballot.
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
		// Members of a proposal in doubt stay together until it is void.
		return m.supersede(out)
	}
	if m.left() == 0 { // they were canceled
		return m.finish(out)
	}
	// The command must read only the rows of these members.
	m.enroll(m.members)
	return m.again(out, CauseQueue, 0)
}

// supersede proposes an empty change, whose decision makes the proposals in doubt void, and then restarts.
func (m *machine) supersede(out []effect) []effect {
	m.superseding = true
	return m.propose(out, m.ballot, nil)
}

// retry makes another attempt after bringing a commit or reading at a quorum has failed.
func (m *machine) retry(out []effect, err error) []effect {
	if isNotReplica(err) {
		// Every attempt plans again, so a refusal because of the topology only needs to be counted.
		m.c.counts.replans.Add(1)
	}
	return m.again(out, CauseRead, m.pause())
}

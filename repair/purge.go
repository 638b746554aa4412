package repair

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/paxos/acceptor"
	"cqld/row"
	"cqld/schema"
)

// Repairs purge the Paxos state of acceptors; docs/adr/0015 proves that this is safe. Before a job begins, it raises
// the table's low bound if that was long ago. Each of its units then has additional phases:
//
//	list ── unsettled proposals up to the low bound ──▶ a round for each of them, in which all replicas vote
//	  ▲──────────────────────────────────────┘ until all replicas list nothing, twice
//	compare and read differences: now all replicas have every change decided up to the low bound
//	purge ──▶ every replica
//	notice ──▶ every replica: tombstones up to the low bound may be purged, later ones not
//
// A failure of the purge does not stop the repair: then no state is purged, and tombstones stay.

// raiseLowBound starts the ranges, after it has raised the table's low bound if necessary. A low bound that was ever
// raised continues to rise, whether or not there is state: it limits the purge of tombstones.
func (m *machine) raiseLowBound(table *schema.Table, out []effect) []effect {
	to, lowBound := m.now.Add(-m.limits.PaxosMargin).UnixMicro(), m.view.PaxosFloor(table.StorageID)
	// Each raise is an entry in the metadata log, so it is not made for every job.
	if !m.mayRaise || to-lowBound < m.limits.PaxosEvery.Microseconds() || to <= 0 {
		return m.start(out)
	}
	m.raiseTo = to
	m.conditional = true                           // until it is known
	out = m.pause(&m.alarm, m.limits.Timeout, out) // continue without a leader
	// A table without a low bound gets one only if this node has Paxos state of it.
	if lowBound > 0 {
		return m.raise(out)
	}
	return m.await(&m.request, effect{kind: effectScan}, out)
}

// raise raises the low bound.
func (m *machine) raise(out []effect) []effect {
	return m.await(&m.request, effect{kind: effectRaise, micros: m.raiseTo}, out)
}

// purge is the state of a unit's purge.
type purge struct {
	lowBound int64 // µs
	round    int
	clean    int // consecutive rounds in which no replica listed a proposal
	found    int // number of proposals in this round

	// node and after are the place of the next request: the index in the unit's replicas, and the last partition.
	node  int
	after *row.PartitionKey
	keys  []row.PartitionKey // listed proposals that are not settled
}

// cleanRounds is the number of consecutive rounds in which no replica may list a proposal. After the first one, no
// replica has an unsettled proposal, because none accepts a proposal up to the low bound. In the second round, a
// replica refuses to answer if such state is being streamed to it, or was streamed in between.
const cleanRounds = 2

// settle starts the unit's purge of proposals up to the low bound.
func (u *unit) settle(lowBound int64, out []effect) []effect {
	u.purge = &purge{lowBound: lowBound}
	// Later deletions, by a clock that is behind, may have been decided after the low bound.
	u.until = min(u.until, time.UnixMicro(lowBound).Add(-u.m.limits.Margin).Unix())
	if len(u.topology.Operations()) > 0 { // replicas would refuse
		return u.giveUp(out)
	}
	return u.list(out)
}

// giveUp continues without a purge: with the comparison, or after it.
func (u *unit) giveUp(out []effect) []effect {
	u.keep()
	if u.phase == phaseForgetting {
		return u.nextLeaf(out)
	}
	return u.compare(out)
}

// keep prevents the purge of the remaining Paxos state and of all tombstones.
func (u *unit) keep() {
	u.purge, u.until = nil, 0
	u.request.attempts = 0
	u.m.report.Unpurged++
}

// list settles the next listed proposal, or requests the next page of proposals, or ends the round.
func (u *unit) list(out []effect) []effect {
	p := u.purge
	switch {
	case len(p.keys) > 0:
		u.phase = phaseSettling
		return u.m.await(&u.request, effect{kind: effectSettle, key: p.keys[0]}, out)
	case p.node < len(u.set.Natural):
		u.phase = phaseListing
		return u.requestPurge(out)
	}
	// All replicas were asked, and each listed proposal was settled: the round has ended.
	p.round++
	if p.clean++; p.found > 0 {
		p.clean = 0
	}
	p.node, p.found = 0, 0
	switch {
	case p.clean == cleanRounds:
		return u.compare(out)
	// Proposals are found again and again, for example because they are streamed to replicas. A later repair purges.
	case p.round >= cleanRounds+u.m.limits.Rounds:
		return u.giveUp(out)
	}
	return u.list(out)
}

// requestPurge sends the request of a phase to the present replica.
func (u *unit) requestPurge(out []effect) []effect {
	p := u.purge
	req := &acceptor.PurgeRequest{Epoch: u.topology.Epoch(), Moved: u.topology.Moved(), Table: u.table.StorageID,
		Tokens: u.tokens, LowBound: p.lowBound, Forget: u.phase == phaseForgetting, After: p.after}
	return u.m.await(&u.request, effect{kind: effectPurge, node: u.set.Natural[p.node], purge: req}, out)
}

// purged handles the answer of a replica to requestPurge.
func (u *unit) purged(ev *event, out []effect) []effect {
	var refusal *coordinator.NotReplica
	p, s := u.purge, &ev.purged
	switch {
	case errors.As(ev.err, &refusal):
		return u.again(&u.request, u.set.Natural[p.node], ev, out) // the unit starts again
	case ev.err != nil:
		return u.retryPurge(out)
	}
	u.request.attempts = 0
	u.m.report.Bytes += s.Scanned
	// The replica has no further page: the next one follows.
	if p.after = s.Next; s.Next == nil {
		p.node++
	}
	// The proposals of the page are settled before the next page is requested, so few are in memory.
	if u.phase == phaseListing {
		p.found += len(s.Unsettled)
		p.keys = s.Unsettled
		return u.m.spend(&u.request, s.Scanned, out)
	}
	u.m.report.Forgotten += s.Forgotten
	if len(s.Unsettled) > 0 { // they were streamed to the replica since the last round
		return u.giveUp(append(out, effect{kind: effectSpend, bytes: s.Scanned}))
	}
	return u.m.spend(&u.request, s.Scanned, out)
}

// settled handles the end of a round of Paxos.
func (u *unit) settled(ev *event, out []effect) []effect {
	if ev.err != nil {
		return u.retryPurge(out)
	}
	u.request.attempts = 0
	// The round has decided the proposal or made it void, on all replicas.
	u.purge.keys = u.purge.keys[1:]
	return u.list(out)
}

// retryPurge repeats a request of the purge after a pause, or continues without a purge.
func (u *unit) retryPurge(out []effect) []effect {
	if u.request.attempts++; u.request.attempts >= u.m.limits.Attempts {
		return u.giveUp(out)
	}
	return u.m.retry(&u.request, out)
}

// forget makes the replicas purge their state, one after the other, and continues with the notice. Tombstones may be
// purged only after all replicas have purged their state: a replica that still knows an old decision would send it to
// the others.
func (u *unit) forget(out []effect) []effect {
	p := u.purge
	p.checkRounds()
	if u.phase = phaseForgetting; p.node < len(u.set.Natural) {
		return u.requestPurge(out)
	}
	u.purge = nil
	return u.nextLeaf(out)
}

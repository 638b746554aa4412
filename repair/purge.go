package repair

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/paxos/acceptor"
	"cqld/row"
	"cqld/schema"
)

// Repairs purge the Paxos state of acceptors; docs/adr/0015 proves that this is safe. Before a job begins, it raises
// the table's low bound if that was long ago. Each of its units then has additional steps:
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
func (j *Run) raiseLowBound(table *schema.Table) {
	r := j.r
	to, lowBound := r.clock.Now().Add(-r.limits.PaxosMargin).UnixMicro(), r.view.PaxosFloor(table.StorageID)
	if r.raise == nil || to-lowBound < r.limits.PaxosEvery.Microseconds() || to <= 0 {
		j.next()
		return
	}
	j.conditional = true // until it is known
	var timer env.Timer
	begun := false
	begin := func() {
		j.events.do(func() {
			if !begun && !j.ended {
				begun = true
				timer.Stop()
				j.next()
			}
		})
	}
	timer = r.clock.After(r.limits.Timeout, begin) // continue without a leader
	// after a failure, with the present low bound
	raise := func() { r.raise(table.StorageID, to, func(error) { begin() }) }
	if lowBound > 0 {
		raise()
		return
	}
	r.paxos.Conditional(table.StorageID, func(any bool, err error) {
		j.events.do(func() {
			if j.conditional = any || err != nil; any && err == nil {
				raise()
			} else {
				begin()
			}
		})
	})
}

// purge is the state of a unit's purge. Its methods are events of the job.
type purge struct {
	u        *unit
	lowBound int64 // µs
	round    int
	clean    int // consecutive rounds in which no replica listed a proposal
	found    int // number of proposals in this round

	node     int // index in the unit's replicas
	after    *row.PartitionKey
	attempts int
}

// cleanRounds is the number of consecutive rounds in which no replica may list a proposal. After the first one, no
// replica has an unsettled proposal, because none accepts a proposal up to the low bound. In the second round, a
// replica refuses to answer if such state is being streamed to it, or was streamed in between.
const cleanRounds = 2

// settle starts the unit's purge of proposals up to the low bound.
func (u *unit) settle(lowBound int64) {
	u.purge = &purge{u: u, lowBound: lowBound}
	// Later deletions, by a clock that is behind, may have been decided after the low bound.
	u.until = min(u.until, time.UnixMicro(lowBound).Add(-u.r.limits.Margin).Unix())
	if len(u.topology.Operations()) > 0 { // replicas would refuse
		u.purge.giveUp()
		return
	}
	u.purge.list()
}

// giveUp continues without a purge.
func (p *purge) giveUp() {
	p.u.keep()
	p.u.compare()
}

// keep prevents the purge of the remaining Paxos state and of all tombstones.
func (u *unit) keep() {
	u.purge, u.until = nil, 0
	u.j.report.Unpurged++
}

// step sends a request to the present replica, and continues with then.
func (p *purge) step(forget bool, then func(acceptor.PurgeStep), failed func()) {
	u := p.u
	req := &acceptor.PurgeRequest{Epoch: u.topology.Epoch(), Moved: u.topology.Moved(), Table: u.table.StorageID,
		Tokens:   u.tokens,
		LowBound: p.lowBound, Forget: forget, After: p.after}
	u.r.paxos.Paxos(u.set.Natural[p.node], req, u.r.limits.Timeout, func(s acceptor.PurgeStep, err error) {
		u.j.events.do(func() {
			var refusal *coordinator.NotReplica
			switch {
			case u.j.ended || u.ended || u.purge != p:
			case errors.As(err, &refusal):
				u.again(&p.attempts, u.set.Natural[p.node], err, nil) // the unit starts again
			case err != nil:
				p.retry(failed, func() { p.step(forget, then, failed) })
			default:
				p.attempts = 0
				u.j.report.Bytes += s.Scanned
				u.j.after(u.j.spend(s.Scanned), func() { then(s) })
			}
		})
	})
}

// retry repeats a step after a pause, or fails.
func (p *purge) retry(failed, try func()) {
	if p.attempts++; p.attempts >= p.u.r.limits.Attempts {
		failed()
		return
	}
	p.u.j.after(p.u.r.limits.RetryPause<<(p.attempts-1), func() {
		if !p.u.ended {
			try()
		}
	})
}

// list requests the unsettled proposals, one replica after the other.
func (p *purge) list() {
	p.step(false, func(s acceptor.PurgeStep) {
		p.found += len(s.Unsettled)
		p.after = s.Next
		p.settle(s.Unsettled)
	}, p.giveUp)
}

// settle executes a round for each partition, and then continues the list.
func (p *purge) settle(keys []row.PartitionKey) {
	u := p.u
	if len(keys) == 0 {
		p.listed()
		return
	}
	u.r.propose.SettleProposals(u.table.StorageID, keys[0], u.r.limits.Timeout, func(err error) {
		u.j.events.do(func() {
			switch {
			case u.j.ended || u.ended || u.purge != p:
			case err != nil:
				p.retry(p.giveUp, func() { p.settle(keys) })
			default:
				p.attempts = 0
				p.settle(keys[1:])
			}
		})
	})
}

// listed continues after a page: with the next page, the next replica, the next round, or the comparison.
func (p *purge) listed() {
	if p.after != nil || p.nextNode() {
		p.list()
		return
	}
	p.round++
	if p.clean++; p.found > 0 {
		p.clean = 0
	}
	p.node, p.found = 0, 0
	switch {
	case p.clean == cleanRounds:
		p.u.compare()
	case p.round >= cleanRounds+p.u.r.limits.Rounds:
		p.giveUp()
	default:
		p.list()
	}
}

// nextNode moves to the next replica; it returns false if there is none.
func (p *purge) nextNode() bool {
	p.node++
	return p.node < len(p.u.set.Natural)
}

// forget makes the replicas purge their state, one after the other, and continues with the notice. Tombstones may be
// purged only after all replicas have purged their state: a replica that still knows an old decision would send it to
// the others.
func (p *purge) forget() {
	invariant.Check(p.clean == cleanRounds, "repair: Paxos states are removed before all proposals are decided")
	if p.after == nil && p.node >= len(p.u.set.Natural) {
		p.u.purge = nil
		p.u.nextLeaf()
		return
	}
	stay := func() {
		p.u.keep()
		p.u.nextLeaf()
	}
	p.step(true, func(s acceptor.PurgeStep) {
		p.u.j.report.Forgotten += s.Forgotten
		if len(s.Unsettled) > 0 { // they were streamed to the replica since the last round
			stay()
			return
		}
		if p.after = s.Next; p.after == nil {
			p.node++
		}
		p.forget()
	}, stay)
}

package repair

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/paxos"
	"cqld/row"
	"cqld/schema"
)

// The state of Paxos is purged with repairs; docs/adr/0015 says why it may. Before a job begins, the table's floor is
// raised when that was long ago; and each of its units does more than it does for other tables:
//
//	list ── unsettled up to the floor ──▶ a round of each of them, in which all replicas vote
//	  ▲──────────────────────────────────────┘ until all replicas list nothing, twice
//	compare and read what differs: now all replicas have all that was decided up to the floor
//	forget ──▶ every replica      notice ──▶ every replica: tombstones go up to the floor, no further
//
// What goes wrong with it does not stop the rest: nothing is forgotten then, and tombstones stay.

// raiseFloor begins the ranges, after the table's floor is raised if it should be. One that was ever raised goes on
// rising, with state or without: tombstones go up to there, no further.
func (j *Run) raiseFloor(table *schema.Table) {
	r := j.r
	to, floor := r.clock.Now().Add(-r.limits.PaxosMargin).UnixMicro(), r.view.PaxosFloor(table.StorageID)
	if r.raise == nil || to-floor < r.limits.PaxosEvery.Microseconds() || to <= 0 {
		j.next()
		return
	}
	j.conditional = true // until it is known better
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
	timer = r.clock.After(r.limits.Timeout, begin)                            // as long as there is no leader
	raise := func() { r.raise(table.StorageID, to, func(error) { begin() }) } // with the floor there is, if it failed
	if floor > 0 {
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

// purge is a unit's share of it. Its methods are events of the job.
type purge struct {
	u     *unit
	floor int64 // µs
	round int
	clean int // rounds in which no replica had anything to settle, one after the other
	found int // in this round

	node     int // of the unit's replicas: who is asked
	after    *row.PartitionKey
	attempts int
}

// cleanRounds is how often all replicas must have nothing to settle. When they have nothing for the first time,
// nobody has, as nobody accepts anything up to the floor; in the second round a replica would tell that such state is
// being streamed to it, or was.
const cleanRounds = 2

// settle begins the unit with what is unsettled up to the floor.
func (u *unit) settle(floor int64) {
	u.purge = &purge{u: u, floor: floor}
	// What was deleted later, by a clock that is behind, may have been decided after the floor.
	u.until = min(u.until, time.UnixMicro(floor).Add(-u.r.limits.Margin).Unix())
	if len(u.topology.Operations()) > 0 { // replicas would refuse
		u.purge.giveUp()
		return
	}
	u.purge.list()
}

// giveUp goes on without a purge.
func (p *purge) giveUp() {
	p.u.keep()
	p.u.compare()
}

// keep makes all that is left of Paxos, and all tombstones, stay.
func (u *unit) keep() {
	u.purge, u.until = nil, 0
	u.j.report.Unpurged++
}

// step asks the present replica, and goes on with then.
func (p *purge) step(forget bool, then func(paxos.PurgeStep), failed func()) {
	u := p.u
	req := &paxos.PurgeRequest{Epoch: u.topology.Epoch(), Moved: u.topology.Moved(), Table: u.table.StorageID, Tokens: u.tokens,
		LowBound: p.floor, Forget: forget, After: p.after}
	u.r.paxos.Paxos(u.set.Natural[p.node], req, u.r.limits.Timeout, func(s paxos.PurgeStep, err error) {
		u.j.events.do(func() {
			var refusal *coordinator.NotReplica
			switch {
			case u.j.ended || u.ended || u.purge != p:
			case errors.As(err, &refusal):
				u.again(&p.attempts, u.set.Natural[p.node], err, nil) // the unit begins again
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

// retry tries something again after a pause, or fails.
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

// list asks for what is unsettled, one replica after the other.
func (p *purge) list() {
	p.step(false, func(s paxos.PurgeStep) {
		p.found += len(s.Unsettled)
		p.after = s.Next
		p.settle(s.Unsettled)
	}, p.giveUp)
}

// settle makes a round of each partition, and lists on.
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

// listed goes on behind a page: with the next, the next replica, the next round, or the comparison.
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

// nextNode turns to the next replica; false when there is none.
func (p *purge) nextNode() bool {
	p.node++
	return p.node < len(p.u.set.Natural)
}

// forget makes the replicas forget, one after the other, and goes on with the notice. Tombstones may go only when all have: one who knows of an
// old decision would bring it back to those who do not.
func (p *purge) forget() {
	if p.after == nil && p.node >= len(p.u.set.Natural) {
		p.u.purge = nil
		p.u.nextLeaf()
		return
	}
	p.step(true, func(s paxos.PurgeStep) {
		p.u.j.report.Forgotten += s.Forgotten
		if p.after = s.Next; p.after == nil {
			p.node++
		}
		p.forget()
	}, func() {
		p.u.keep()
		p.u.nextLeaf()
	})
}

package paxos

import (
	"slices"
	"time"

	"cqld/internal/env"
	"cqld/paxos/contention"
	"cqld/ring"
)

// Coordinators that change one partition at the same time outvote each other, and each failed attempt costs all of them
// round trips and syncs. After a contention, they therefore take turns for a while, which the partition's arbiter
// grants: its first live replica (package contention). A round keeps its turn from its first attempt to its end.

// Turn calls done when the node may start a round of the partition. This node is the partition's arbiter.
func (c *Proposer) Turn(partition string, from ring.NodeID, timeout time.Duration, done func(contention.Turn)) {
	c.turns.Ask(partition, from, timeout, done)
}

// Pass ends a turn.
func (c *Proposer) Pass(partition string, ticket uint64) { c.turns.Pass(partition, ticket) }

// turnState is the state of a round's turn.
type turnState struct {
	contention.Turn
	arbiter ring.NodeID
	since   time.Duration // when it was granted
	asked   int           // number of the request, to match answers
	waited  time.Duration // start of the present wait for the arbiter's answer
	until   time.Duration // when the round starts without a turn
	tried   []ring.NodeID // arbiters that this round has asked
	timer   env.Timer
}

// begin starts an attempt. If the partition is contended, it waits for a turn first.
func (op *round) begin() {
	defer op.guarded()
	op.mu.Lock()
	if op.over { // all members were canceled in a pause
		op.mu.Unlock()
		return
	}
	now := op.c.clock.Monotonic()
	if op.turn.Ticket != 0 && now-op.turn.since >= op.turn.Kept {
		op.turn.Ticket = 0 // it has expired
	}
	if op.turn.Ticket != 0 || op.c.unsafe.NoArbiter || !op.c.contested.Has(op.partition, now) {
		op.attemptLocked()
		return
	}
	op.turn.tried = nil
	op.stageLocked(StageTurn)
	// A part of the time remains for the attempt.
	op.turn.until = now + min(contention.WaitMax, op.timeout, max(op.latestDeadline()-now, 0)/2)
	op.askTurnLocked(now)
}

// askTurnLocked asks the partition's arbiter for a turn. If no arbiter is left, or the time for waiting is over, the
// round starts without a turn. It unlocks mu.
func (op *round) askTurnLocked(now time.Duration) {
	arbiter, ok := op.arbiterLocked(now)
	if !ok || now >= op.turn.until {
		op.attemptLocked()
		return
	}
	op.turn.asked++
	op.turn.arbiter = arbiter
	op.turn.tried = append(op.turn.tried, arbiter)
	asked, timeout := op.turn.asked, op.turn.until-now
	op.awaitTurnLocked(now)
	op.trace("Waiting for the partition's turn") // while members cannot change
	op.mu.Unlock()
	if arbiter == op.c.view.Self() {
		op.c.Turn(op.partition, arbiter, timeout, func(t contention.Turn) { op.onTurn(asked, arbiter, t) })
		return
	}
	op.c.acceptors.RequestTurn(arbiter, op.partition, timeout, func(t contention.Turn, err error) {
		if err != nil {
			op.onNoTurn(asked)
			return
		}
		at := op.c.clock.Monotonic()
		op.c.arbiters.Answered(arbiter, at-now, at)
		op.onTurn(asked, arbiter, t)
	})
}

// awaitTurnLocked arms the timer of a wait for the arbiter.
func (op *round) awaitTurnLocked(now time.Duration) {
	asked, wait := op.turn.asked, op.turn.until-now
	if arbiter := op.turn.arbiter; arbiter != op.c.view.Self() {
		wait = min(wait, op.c.arbiters.Patience(arbiter, now))
	}
	op.turn.waited = now
	op.turn.timer = op.c.clock.After(wait, func() { op.onLateTurn(asked) })
}

// onLateTurn is the event that an arbiter did not answer in time. If it has answered other requests meanwhile, the
// round waits again.
func (op *round) onLateTurn(asked int) {
	defer op.guarded()
	op.mu.Lock()
	now := op.c.clock.Monotonic()
	if asked == op.turn.asked && now < op.turn.until && op.arbiterHeardLocked() {
		op.awaitTurnLocked(now)
		op.mu.Unlock()
		return
	}
	op.noTurnLocked(asked, now)
}

// arbiterHeardLocked reports whether the arbiter has answered any request during the present wait.
func (op *round) arbiterHeardLocked() bool {
	return op.turn.arbiter == op.c.view.Self() || op.c.arbiters.HeardSince(op.turn.arbiter, op.turn.waited)
}

// arbiterLocked returns the first of the partition's replicas that this node considers alive and responsive, and that
// the round has not asked.
func (op *round) arbiterLocked(now time.Duration) (ring.NodeID, bool) {
	for _, node := range op.c.replicasOf(op.c.view.Topology(), op.table, op.cmd.Key.Token).Natural {
		switch self := node == op.c.view.Self(); {
		case slices.Contains(op.turn.tried, node):
		case self, op.c.view.Alive(node) && op.c.arbiters.Usable(node, now):
			return node, true
		}
	}
	return 0, false
}

// onNoTurn is the event that the request for a turn failed.
func (op *round) onNoTurn(asked int) {
	defer op.guarded()
	op.mu.Lock()
	op.noTurnLocked(asked, op.c.clock.Monotonic())
}

// noTurnLocked gives an arbiter up and asks the next one. It unlocks mu.
func (op *round) noTurnLocked(asked int, now time.Duration) {
	if asked != op.turn.asked {
		op.mu.Unlock()
		return
	}
	op.turn.asked++
	op.turn.timer.Stop()
	op.c.counts.arbitersFailed.Add(1)
	if !op.arbiterHeardLocked() {
		op.c.arbiters.Silent(op.turn.arbiter, now)
	}
	op.askTurnLocked(now)
}

// onTurn is the event that the turn was granted.
func (op *round) onTurn(asked int, arbiter ring.NodeID, t contention.Turn) {
	defer op.guarded()
	op.mu.Lock()
	if asked != op.turn.asked { // the round has started without it
		op.mu.Unlock()
		op.c.passTurn(arbiter, op.partition, t)
		return
	}
	op.turn.asked++
	op.turn.timer.Stop()
	now := op.c.clock.Monotonic()
	if op.turn.Turn, op.turn.since = t, now; t.Ticket != 0 {
		op.c.counts.turns.Add(1)
	}
	if !t.Alone {
		op.c.contested.Note(op.partition, now)
		op.c.lastBallots.forget(op.partition) // another coordinator has settled later ones
	}
	if op.attempt == 0 { // members that arrived meanwhile join the round
		if members := op.c.queues.regroup(op.partition, unanswered(op.members), &op.c.limits); len(members) > 0 {
			op.members = members
			op.enroll()
		}
	}
	op.attemptLocked()
}

// endTurn returns the round's turn.
func (op *round) endTurn() {
	op.mu.Lock()
	ended := op.turn
	op.turn.Turn = contention.Turn{}
	op.mu.Unlock()
	op.c.passTurn(ended.arbiter, op.partition, ended.Turn)
}

// passTurn returns a turn to the partition's arbiter.
func (c *Proposer) passTurn(arbiter ring.NodeID, partition string, t contention.Turn) {
	if t.Ticket == 0 {
		return
	}
	if arbiter == c.view.Self() {
		c.Pass(partition, t.Ticket)
	} else {
		c.acceptors.EndTurn(arbiter, partition, t.Ticket)
	}
}

package paxos

import (
	"slices"
	"time"

	"cqld/internal/env"
	"cqld/paxos/contention"
	"cqld/ring"
)

// Coordinators that change one partition at the same time outvote each other, and each attempt that fails has
// cost all of them its trips and syncs. Those that have met therefore go one after the other for a while: the
// partition's home, its first replica that is alive, says whose turn it is (package turn). A round keeps its turn
// from its first attempt to its end.

// Turn calls done once it is the node's turn with the partition of which this node is the home.
func (c *Proposer) Turn(line string, from ring.NodeID, timeout time.Duration, done func(contention.Turn)) {
	c.turns.Ask(line, from, timeout, done)
}

// Pass ends a turn.
func (c *Proposer) Pass(line string, ticket uint64) { c.turns.Pass(line, ticket) }

// turnState is a round's turn.
type turnState struct {
	contention.Turn
	home  ring.NodeID
	since time.Duration // when it came
	asked int           // which question an answer is to
	until time.Duration // when the round goes on without
	tried []ring.NodeID // arbiters that were asked since the round began to wait
	timer env.Timer
}

// begin starts an attempt, when it is the round's turn if the partition is contested.
func (op *round) begin() {
	defer op.guarded()
	op.mu.Lock()
	now := op.c.clock.Monotonic()
	if op.turn.Ticket != 0 && now-op.turn.since >= op.turn.Kept {
		op.turn.Ticket = 0 // it ended by itself
	}
	if op.turn.Ticket != 0 || op.c.unsafe.NoArbiter || !op.c.contested.Has(op.line, now) {
		op.attemptLocked()
		return
	}
	op.turn.tried = nil
	op.stageLocked(StageTurn)
	op.turn.until = now + min(contention.WaitMax, op.timeout, max(op.latestDeadline()-now, 0))
	op.askTurnLocked(now)
}

// askTurnLocked asks the partition's arbiter for the turn. When none is left to ask, or the time to wait is over, the
// round goes on without. It frees mu.
func (op *round) askTurnLocked(now time.Duration) {
	home, ok := op.arbiterLocked(now)
	if !ok || now >= op.turn.until {
		op.attemptLocked()
		return
	}
	op.turn.asked++
	op.turn.home = home
	op.turn.tried = append(op.turn.tried, home)
	asked, timeout := op.turn.asked, op.turn.until-now
	self, patience := home == op.c.view.Self(), timeout
	if !self {
		patience = min(timeout, op.c.arbiters.Patience(home, now))
	}
	op.turn.timer = op.c.clock.After(patience, func() { op.onNoTurn(asked) })
	op.mu.Unlock()
	op.trace("Waiting for the partition's turn")
	if self {
		op.c.Turn(op.line, home, timeout, func(t contention.Turn) { op.onTurn(asked, home, t) })
		return
	}
	op.c.acceptors.RequestTurn(home, op.line, timeout, func(t contention.Turn, err error) {
		if err != nil {
			op.onNoTurn(asked)
			return
		}
		at := op.c.clock.Monotonic()
		op.c.arbiters.Answered(home, at-now, at)
		op.onTurn(asked, home, t)
	})
}

// arbiterLocked is the first of the partition's replicas that is alive and answers, in this node's opinion, and was not
// asked before.
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

// onNoTurn is the event that an arbiter failed, or did not answer in time. The next one is asked.
func (op *round) onNoTurn(asked int) {
	defer op.guarded()
	op.mu.Lock()
	if asked != op.turn.asked {
		op.mu.Unlock()
		return
	}
	op.turn.asked++
	op.turn.timer.Stop()
	op.c.counts.arbitersFailed.Add(1)
	now := op.c.clock.Monotonic()
	if op.turn.home != op.c.view.Self() {
		op.c.arbiters.Silent(op.turn.home, now)
	}
	op.askTurnLocked(now)
}

// onTurn is the event that the turn came.
func (op *round) onTurn(asked int, home ring.NodeID, t contention.Turn) {
	defer op.guarded()
	op.mu.Lock()
	if asked != op.turn.asked { // the round went on without
		op.mu.Unlock()
		op.c.passTurn(home, op.line, t)
		return
	}
	op.turn.asked++
	op.turn.timer.Stop()
	now := op.c.clock.Monotonic()
	if op.turn.Turn, op.turn.since = t, now; t.Ticket != 0 {
		op.c.counts.turns.Add(1)
	}
	if !t.Alone {
		op.c.contested.Note(op.line, now)
		op.c.lastBallots.forget(op.line) // somebody else has settled later ones
	}
	if op.attempt == 0 { // what came for the partition meanwhile goes along
		op.c.queues.putBack(op.line, op.members)
		op.members = op.c.queues.leave(op.line, &op.c.limits)
		op.enroll()
	}
	op.attemptLocked()
}

// endTurn gives the round's turn back.
func (op *round) endTurn() {
	op.mu.Lock()
	ended := op.turn
	op.turn.Turn = contention.Turn{}
	op.mu.Unlock()
	op.c.passTurn(ended.home, op.line, ended.Turn)
}

// passTurn gives a turn back to the partition's home.
func (c *Proposer) passTurn(home ring.NodeID, line string, t contention.Turn) {
	if t.Ticket == 0 {
		return
	}
	if home == c.view.Self() {
		c.Pass(line, t.Ticket)
	} else {
		c.acceptors.EndTurn(home, line, t.Ticket)
	}
}

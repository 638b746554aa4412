package coordinator

import (
	"slices"
	"time"

	"cqld/coordinator/turn"
	"cqld/internal/env"
	"cqld/ring"
)

// Coordinators that change one partition at the same time outvote each other, and each attempt that fails has
// cost all of them its trips and syncs. Those that have met therefore go one after the other for a while: the
// partition's home, its first replica that is alive, says whose turn it is (package turn). A round keeps its turn
// from its first attempt to its end.

// Usher is the Replica of another node that can be asked for a turn there. line names the partition.
type Usher interface {
	Turn(line string, timeout time.Duration, done func(turn.Turn, error))
	Pass(line string, ticket uint64)
}

// Turn calls done once it is the node's turn with the partition of which this node is the home.
func (c *Coordinator) Turn(line string, from ring.NodeID, timeout time.Duration, done func(turn.Turn)) {
	c.turns.Ask(line, from, timeout, done)
}

// Pass ends a turn.
func (c *Coordinator) Pass(line string, ticket uint64) { c.turns.Pass(line, ticket) }

// casTurn is a round's turn.
type casTurn struct {
	turn.Turn
	home  ring.NodeID
	since time.Duration // when it came
	asked int           // which question an answer is to
	until time.Duration // when the round goes on without
	tried []ring.NodeID // arbiters that were asked since the round began to wait
	timer env.Timer
}

// begin starts an attempt, when it is the round's turn if the partition is contested.
func (op *casRound) begin() {
	defer op.guarded()
	op.mu.Lock()
	now := op.c.clock.Monotonic()
	if op.turn.Ticket != 0 && now-op.turn.since >= op.turn.Kept {
		op.turn.Ticket = 0 // it ended by itself
	}
	if op.turn.Ticket != 0 || op.c.unsafe.NoTurns || !op.c.contested.Has(op.line, now) {
		op.attemptLocked()
		return
	}
	op.turn.tried = nil
	op.stageLocked(CASStageTurn)
	op.turn.until = now + min(turn.WaitMax, op.timeout, max(op.latestDeadline()-now, 0))
	op.askTurnLocked(now)
}

// askTurnLocked asks the partition's arbiter for the turn. When none is left to ask, or the time to wait is over, the
// round goes on without. It frees mu.
func (op *casRound) askTurnLocked(now time.Duration) {
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
		op.c.Turn(op.line, home, timeout, func(t turn.Turn) { op.onTurn(asked, home, t) })
		return
	}
	usher, ok := op.c.replicas.Replica(home).(Usher)
	if !ok {
		op.onNoTurn(asked)
		return
	}
	usher.Turn(op.line, timeout, func(t turn.Turn, err error) {
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
func (op *casRound) arbiterLocked(now time.Duration) (ring.NodeID, bool) {
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
func (op *casRound) onNoTurn(asked int) {
	defer op.guarded()
	op.mu.Lock()
	if asked != op.turn.asked {
		op.mu.Unlock()
		return
	}
	op.turn.asked++
	op.turn.timer.Stop()
	op.c.counts.casArbitersFailed.Add(1)
	now := op.c.clock.Monotonic()
	if op.turn.home != op.c.view.Self() {
		op.c.arbiters.Silent(op.turn.home, now)
	}
	op.askTurnLocked(now)
}

// onTurn is the event that the turn came.
func (op *casRound) onTurn(asked int, home ring.NodeID, t turn.Turn) {
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
		op.c.counts.casTurns.Add(1)
	}
	if !t.Alone {
		op.c.contested.Note(op.line, now)
		op.c.lastBallots.forget(op.line) // somebody else has settled later ones
	}
	if op.attempt == 0 { // what came for the partition meanwhile goes along
		op.c.casLines.putBack(op.line, op.members)
		op.members = op.c.casLines.leave(op.line, &op.c.limits)
		op.enroll()
	}
	op.attemptLocked()
}

// endTurn gives the round's turn back.
func (op *casRound) endTurn() {
	op.mu.Lock()
	ended := op.turn
	op.turn.Turn = turn.Turn{}
	op.mu.Unlock()
	op.c.passTurn(ended.home, op.line, ended.Turn)
}

// passTurn gives a turn back to the partition's home.
func (c *Coordinator) passTurn(home ring.NodeID, line string, t turn.Turn) {
	if t.Ticket == 0 {
		return
	}
	if home == c.view.Self() {
		c.Pass(line, t.Ticket)
	} else if usher, ok := c.replicas.Replica(home).(Usher); ok {
		usher.Pass(line, t.Ticket)
	}
}

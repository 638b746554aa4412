package coordinator

import (
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
	since time.Duration
	asked int // which question an answer is to
	timer env.Timer
}

// begin starts an attempt, when it is the round's turn if the partition is contested.
func (op *casRound) begin() {
	defer op.guarded()
	op.mu.Lock()
	now := op.c.clock.Monotonic()
	if op.turn.Ticket != 0 && now-op.turn.since >= turn.Kept {
		op.turn.Ticket = 0 // it ended by itself
	}
	home, ok := ring.NodeID(0), false
	if op.turn.Ticket == 0 && !op.c.unsafe.NoTurns && op.c.contested.Has(op.line, now) {
		home, ok = op.homeLocked()
	}
	if !ok {
		op.attemptLocked()
		return
	}
	op.turn.asked++
	op.turn.home = home
	asked, timeout := op.turn.asked, min(turn.WaitMax, op.timeout)
	op.turn.timer = op.c.clock.After(timeout, func() { op.onTurn(asked, turn.Turn{}) })
	op.mu.Unlock()
	op.trace("Waiting for the partition's turn")
	if home == op.c.view.Self() {
		op.c.Turn(op.line, home, timeout, func(t turn.Turn) { op.onTurn(asked, t) })
		return
	}
	usher, ok := op.c.replicas.Replica(home).(Usher)
	if !ok {
		op.onTurn(asked, turn.Turn{})
		return
	}
	usher.Turn(op.line, timeout, func(t turn.Turn, err error) {
		if err != nil {
			t = turn.Turn{}
		}
		op.onTurn(asked, t)
	})
}

// homeLocked is the first of the partition's replicas that is alive, in this node's opinion.
func (op *casRound) homeLocked() (ring.NodeID, bool) {
	for _, node := range op.c.replicasOf(op.c.view.Topology(), op.table, op.cmd.Key.Token).Natural {
		if node == op.c.view.Self() || op.c.view.Alive(node) {
			return node, true
		}
	}
	return 0, false
}

// onTurn is the event that the turn came, or will not.
func (op *casRound) onTurn(asked int, t turn.Turn) {
	defer op.guarded()
	op.mu.Lock()
	if asked != op.turn.asked { // the round went on without
		home := op.turn.home
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

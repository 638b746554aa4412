package coordinator

import (
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// Coordinators that change one partition at the same time outvote each other, and each attempt that fails has
// cost all of them its trips and syncs. Those that have met therefore go one after the other for a while: the
// partition's home, its first replica that is alive, says whose turn it is. A round keeps its turn from its
// first attempt to its end.
//
//	A ── turn? ──▶ home ◀── turn? ── B
//	A ◀── go ───── home              (B waits, and gathers what comes for the partition meanwhile)
//	A   its round, by Paxos as ever
//	A ── pass ───▶ home ─── go ────▶ B
//
// A turn orders, and promises nothing: who gets none in time goes on without, two homes that disagree about who
// is alive let two go at once, and Paxos decides as it always does.

// Turn is the leave to go on.
type Turn struct {
	// Ticket is what the turn is given back by; zero: there is no order, go on at once.
	Ticket uint64
	// Alone says that nobody else had a turn since this node's last one, as far as is known.
	Alone bool
}

// Usher is the Replica of another node that can be asked for a turn there. line names the partition.
type Usher interface {
	Turn(line string, timeout time.Duration, done func(Turn, error))
	Pass(line string, ticket uint64)
}

const (
	// turnTime is how long a turn is kept for a node that does not give it back: it died, or its round takes
	// longer than any that goes well.
	turnTime = 250 * time.Millisecond
	// turnWait is how long a turn is waited for: some turns of others.
	turnWait = 500 * time.Millisecond
	// contestedFor is how long a partition is known for being changed by several.
	contestedFor = 5 * time.Second
	// turnLinesMax bounds the partitions that are ordered at once, turnWaitersMax the nodes that wait for one.
	turnLinesMax, turnWaitersMax = 4096, 256
	// contestedSlots is how many partitions are remembered, as a coordinator and as a home.
	contestedSlots = 1024
)

// turns are a home's.
type turns struct {
	clock  env.Clock
	mu     sync.Mutex
	lines  map[string]*turnLine
	latest uint64 // ticket
	last   [contestedSlots]struct {
		line string
		node ring.NodeID
	}
}

// turnLine is a partition of which somebody has the turn.
type turnLine struct {
	ticket  uint64
	timer   env.Timer
	waiting []turnWaiter
}

type turnWaiter struct {
	from     ring.NodeID
	deadline time.Duration
	done     func(Turn)
}

func newTurns(clock env.Clock) *turns {
	return &turns{clock: clock, lines: map[string]*turnLine{}, latest: uint64(clock.Now().UnixMicro())}
}

// ask calls done once it is the node's turn.
func (t *turns) ask(line string, from ring.NodeID, timeout time.Duration, done func(Turn)) {
	t.mu.Lock()
	l := t.lines[line]
	switch {
	case l == nil && len(t.lines) >= turnLinesMax, l != nil && len(l.waiting) >= turnWaitersMax:
		t.mu.Unlock()
		done(Turn{})
		return
	case l != nil:
		l.waiting = append(l.waiting, turnWaiter{from, t.clock.Monotonic() + timeout, done})
		t.mu.Unlock()
		return
	}
	l = &turnLine{}
	t.lines[line] = l
	turn := t.grantLocked(line, l, from)
	t.mu.Unlock()
	done(turn)
}

// pass ends a turn, if it has not ended by itself.
func (t *turns) pass(line string, ticket uint64) {
	t.mu.Lock()
	l := t.lines[line]
	if l == nil || l.ticket != ticket {
		t.mu.Unlock()
		return
	}
	l.timer.Stop()
	now := t.clock.Monotonic()
	var late []turnWaiter
	defer func() {
		for _, w := range late {
			w.done(Turn{})
		}
	}()
	for len(l.waiting) > 0 {
		w := l.waiting[0]
		l.waiting = l.waiting[1:]
		if w.deadline <= now { // it has gone on without
			late = append(late, w)
			continue
		}
		turn := t.grantLocked(line, l, w.from)
		t.mu.Unlock()
		w.done(turn)
		return
	}
	delete(t.lines, line)
	t.mu.Unlock()
}

// grantLocked gives the turn to a node.
func (t *turns) grantLocked(line string, l *turnLine, from ring.NodeID) Turn {
	t.latest++
	ticket := t.latest
	l.ticket = ticket
	l.timer = t.clock.After(turnTime, func() { t.pass(line, ticket) })
	last := &t.last[hashLine(line)%contestedSlots]
	alone := last.line == line && last.node == from
	last.line, last.node = line, from
	return Turn{Ticket: ticket, Alone: alone}
}

// Turn calls done once it is the node's turn with the partition of which this node is the home.
func (c *Coordinator) Turn(line string, from ring.NodeID, timeout time.Duration, done func(Turn)) {
	c.turns.ask(line, from, min(timeout, turnWait), done)
}

// Pass ends a turn.
func (c *Coordinator) Pass(line string, ticket uint64) { c.turns.pass(line, ticket) }

// contested are the partitions that others were met at, each in the place of its name's hash.
type contested struct {
	mu    sync.Mutex
	slots [contestedSlots]struct {
		line  string
		until time.Duration
	}
}

// note remembers that others change the partition, too.
func (k *contested) note(line string, now time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.slots[hashLine(line)%contestedSlots]
	s.line, s.until = line, now+contestedFor
}

func (k *contested) is(line string, now time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := &k.slots[hashLine(line)%contestedSlots]
	return s.line == line && now < s.until
}

// hashLine is FNV-1a.
func hashLine(line string) uint32 {
	h := uint32(2166136261)
	for i := range len(line) {
		h = (h ^ uint32(line[i])) * 16777619
	}
	return h
}

// casTurn is a round's turn.
type casTurn struct {
	Turn
	home  ring.NodeID
	since time.Duration
	asked int // which question an answer is to
	timer env.Timer
}

// begin starts an attempt, when it is the round's turn if the partition is contested.
func (op *casRound) begin() {
	op.mu.Lock()
	now := op.c.clock.Monotonic()
	if op.turn.Ticket != 0 && now-op.turn.since >= turnTime {
		op.turn.Ticket = 0 // it ended by itself
	}
	home, ok := ring.NodeID(0), false
	if op.turn.Ticket == 0 && !op.c.unsafe.NoTurns && op.c.contested.is(op.line, now) {
		home, ok = op.homeLocked()
	}
	if !ok {
		op.attemptLocked()
		return
	}
	op.turn.asked++
	op.turn.home = home
	asked, timeout := op.turn.asked, min(turnWait, op.timeout)
	op.turn.timer = op.c.clock.After(timeout, func() { op.onTurn(asked, Turn{}) })
	op.mu.Unlock()
	op.trace("Waiting for the partition's turn")
	if home == op.c.view.Self() {
		op.c.Turn(op.line, home, timeout, func(t Turn) { op.onTurn(asked, t) })
		return
	}
	usher, ok := op.c.replicas.Replica(home).(Usher)
	if !ok {
		op.onTurn(asked, Turn{})
		return
	}
	usher.Turn(op.line, timeout, func(t Turn, err error) {
		if err != nil {
			t = Turn{}
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
func (op *casRound) onTurn(asked int, t Turn) {
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
		op.c.contested.note(op.line, now)
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
	turn := op.turn
	op.turn.Turn = Turn{}
	op.mu.Unlock()
	op.c.passTurn(turn.home, op.line, turn.Turn)
}

// passTurn gives a turn back to the partition's home.
func (c *Coordinator) passTurn(home ring.NodeID, line string, t Turn) {
	if t.Ticket == 0 {
		return
	}
	if home == c.view.Self() {
		c.Pass(line, t.Ticket)
	} else if usher, ok := c.replicas.Replica(home).(Usher); ok {
		usher.Pass(line, t.Ticket)
	}
}

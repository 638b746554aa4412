package contention

import (
	"sync"
	"time"

	"cqld/coordinator/latency"
	"cqld/internal/env"
	"cqld/ring"
)

// Turn is the permission to start a round.
type Turn struct {
	// Ticket identifies the turn when it is returned; zero means that the node may start without a turn.
	Ticket uint64
	// Kept is how long the turn lasts unless it is returned earlier.
	Kept time.Duration
	// Alone reports that no other node is known to have had a turn since this node's last one.
	Alone bool
}

// Home is the arbiter of partitions: it grants their turns.
type Home struct {
	clock  env.Clock
	alive  func(ring.NodeID) bool
	held   latency.Average // duration of turns
	mu     sync.Mutex
	lines  map[string]*queue
	latest uint64 // ticket
	last   [slots]struct {
		line string
		node ring.NodeID
	}
}

// queue contains the nodes that wait for the turn of a partition, and the node that has it.
type queue struct {
	ticket  uint64
	holder  ring.NodeID
	since   time.Duration // start of the turn
	timer   env.Timer
	waiting []waiter
}

type waiter struct {
	from     ring.NodeID
	deadline time.Duration
	done     func(Turn)
}

// NewHome returns an arbiter that grants turns to live nodes. alive is called with a lock held and must not block.
func NewHome(clock env.Clock, alive func(ring.NodeID) bool) *Home {
	return &Home{clock: clock, alive: alive, lines: map[string]*queue{}, latest: uint64(clock.Now().UnixMicro())}
}

// Ask calls done when it is the node's turn. After timeout, and at most after WaitMax, it calls done with a Turn without a ticket.
func (h *Home) Ask(line string, from ring.NodeID, timeout time.Duration, done func(Turn)) {
	h.mu.Lock()
	if l := h.lines[line]; l != nil && !h.alive(l.holder) {
		ticket := l.ticket
		h.mu.Unlock()
		h.Pass(line, ticket)
		h.mu.Lock()
	}
	l := h.lines[line]
	switch {
	case l == nil && len(h.lines) >= linesMax, l != nil && len(l.waiting) >= waitersMax:
		h.mu.Unlock()
		done(Turn{})
		return
	case l != nil:
		l.waiting = append(l.waiting, waiter{from, h.clock.Monotonic() + min(timeout, WaitMax), done})
		h.mu.Unlock()
		return
	}
	l = &queue{}
	h.lines[line] = l
	granted := h.grantLocked(line, l, from)
	h.mu.Unlock()
	done(granted)
}

// Pass ends a turn, unless it has expired.
func (h *Home) Pass(line string, ticket uint64) {
	h.mu.Lock()
	l := h.lines[line]
	if l == nil || l.ticket != ticket {
		h.mu.Unlock()
		return
	}
	l.timer.Stop()
	now := h.clock.Monotonic()
	h.held.Record(now - l.since)
	var late []waiter
	defer func() {
		for _, w := range late {
			w.done(Turn{})
		}
	}()
	for len(l.waiting) > 0 {
		w := l.waiting[0]
		l.waiting = l.waiting[1:]
		if w.deadline <= now || !h.alive(w.from) { // it has continued without a turn
			late = append(late, w)
			continue
		}
		granted := h.grantLocked(line, l, w.from)
		h.mu.Unlock()
		w.done(granted)
		return
	}
	delete(h.lines, line)
	h.mu.Unlock()
}

// grantLocked grants the turn to a node.
func (h *Home) grantLocked(line string, l *queue, from ring.NodeID) Turn {
	h.latest++
	ticket := h.latest
	l.ticket, l.holder, l.since = ticket, from, h.clock.Monotonic()
	keep := kept
	if held := h.held.Of(); held > 0 {
		keep = min(max(keptTurns*held, keptLeast), keptMost)
	}
	l.timer = h.clock.After(keep, func() { h.Pass(line, ticket) })
	last := &h.last[Hash(line)%slots]
	alone := last.line == line && last.node == from
	last.line, last.node = line, from
	return Turn{Ticket: ticket, Alone: alone, Kept: keep}
}

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

// Arbiter is the arbiter of partitions: it grants their turns.
type Arbiter struct {
	clock  env.Clock
	alive  func(ring.NodeID) bool
	held   latency.Average // duration of turns
	mu     sync.Mutex
	queues map[string]*queue
	latest uint64 // ticket
	last   [slots]struct {
		partition string
		node      ring.NodeID
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

// NewArbiter returns an arbiter that grants turns to live nodes. alive is called with a lock held and must not block.
func NewArbiter(clock env.Clock, alive func(ring.NodeID) bool) *Arbiter {
	return &Arbiter{clock: clock, alive: alive, queues: map[string]*queue{}, latest: uint64(clock.Now().UnixMicro())}
}

// Ask calls done when it is the node's turn. After timeout, and at most after WaitMax, it calls done with a Turn
// without a ticket.
func (h *Arbiter) Ask(partition string, from ring.NodeID, timeout time.Duration, done func(Turn)) {
	h.mu.Lock()
	// A dead node returns nothing; without this, the others would wait until its turn expires.
	if l := h.queues[partition]; l != nil && !h.alive(l.holder) {
		ticket := l.ticket
		// Pass calls callbacks, so the lock is released first.
		h.mu.Unlock()
		h.Pass(partition, ticket)
		h.mu.Lock()
	}
	l := h.queues[partition]
	switch {
	case l == nil && len(h.queues) >= partitionsMax, l != nil && len(l.waiting) >= waitersMax:
		h.mu.Unlock()
		// Turns are an optimization: beyond the bounds, coordinators start without one.
		done(Turn{})
		return
	case l != nil:
		// First come, first served. A waiter whose deadline passes has a timer of its own,
		// and is skipped.
		l.waiting = append(l.waiting, waiter{from, h.clock.Monotonic() + min(timeout, WaitMax), done})
		h.mu.Unlock()
		return
	}
	l = &queue{}
	h.queues[partition] = l
	granted := h.grantLocked(partition, l, from)
	h.mu.Unlock()
	done(granted)
}

// Pass ends a turn, unless it has expired.
func (h *Arbiter) Pass(partition string, ticket uint64) {
	h.mu.Lock()
	l := h.queues[partition]
	// The turn has expired, or the message was duplicated.
	if l == nil || l.ticket != ticket {
		h.mu.Unlock()
		return
	}
	l.timer.Stop()
	now := h.clock.Monotonic()
	// The average determines how long later turns last: long enough for a usual round, and not much longer.
	h.held.Record(now - l.since)
	var late []waiter
	// The callbacks run after the lock is released, because they may call Ask.
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
		granted := h.grantLocked(partition, l, w.from)
		h.mu.Unlock()
		w.done(granted)
		return
	}
	// An idle partition needs no memory.
	delete(h.queues, partition)
	h.mu.Unlock()
}

// grantLocked grants the turn to a node.
func (h *Arbiter) grantLocked(partition string, l *queue, from ring.NodeID) Turn {
	h.latest++
	ticket := h.latest
	l.ticket, l.holder, l.since = ticket, from, h.clock.Monotonic()
	keep := kept
	// Zero means that no turn has ended yet.
	if held := h.held.Of(); held > 0 {
		keep = min(max(keptTurns*held, keptLeast), keptMost)
	}
	// Expiry passes the turn with its ticket, so a later Pass of the holder has no effect.
	l.timer = h.clock.After(keep, func() { h.Pass(partition, ticket) })
	// Partitions of one slot displace each other: Alone is then false, which costs promises and nothing else.
	last := &h.last[Hash(partition)%slots]
	alone := last.partition == partition && last.node == from
	last.partition, last.node = partition, from
	return Turn{Ticket: ticket, Alone: alone, Kept: keep}
}

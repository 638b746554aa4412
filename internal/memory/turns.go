package memory

import (
	"sync"

	"cqld/internal/env"
)

// turns bounds the long computations that are executed at the same time. Go's scheduler serves runnable goroutines in
// order, 10 ms each, so a request that needs several goroutines waits for all computations several times. With few
// computations, the delay is negligible.
//
// Owners that wait are served in turn, and each owner's computations in the order in which they began to wait:
//
//  1. At most the bound of computations have a turn. If any waits, the bound is reached.
//  2. A computation waits for at most one other of each owner for each of those of its own owner that waited before.
//  3. A computation that has a turn waits only for the CPU and the disk. It gives the turn back before it waits for
//     memory, replicas or clients, so every wait for a turn ends.
//
// Waiting computations by owner:
//
//	order:  B ─ A             the next turn is for B
//	queue:  A: a3, a4         B: b1
type turns struct {
	mu sync.Mutex
	// Turns that no computation has.
	free  int
	order []*Owner // owners in queue, the next one first
	queue map[*Owner][]*Turn
	waits int64 // how often computations had to wait

	newWaiter func() env.Waiter
}

// Turn is one computation, which belongs to one goroutine. The zero Turn, and one that was not opened, have no bound.
type Turn struct {
	turns *turns
	owner *Owner
	// It starts again at each decision.
	counted int  // bytes since Pool.Turn; in a turn, since the last offer of it
	long    bool // turnFree was exceeded
	held    bool
	waiter  env.Waiter
}

// Turn begins a computation of an owner, which may be nil. It ends with Rest. A nil Pool does not bound computations. t
// is reused; its waiter stays.
func (p *Pool) Turn(t *Turn, owner *Owner) {
	if p != nil {
		t.open(p, owner)
	}
}

// open prepares t for another computation of an owner.
func (t *Turn) open(p *Pool, owner *Owner) {
	t.turns, t.owner, t.counted, t.long = &p.turns, owner, 0, false
}

// Work is called before n bytes, such as a row, are processed. A computation of more than 64 KiB waits for its turn,
// and after each further MiB it offers the turn to those that wait. The limits are turnFree and turnBytes; a row counts
// workEach bytes more than it has.
func (t *Turn) Work(n int) {
	if t.turns == nil {
		return
	}
	t.counted += n + workEach
	switch {
	case t.held:
		if t.counted > turnBytes {
			t.counted = 0
			t.offer()
		}
	case t.long || t.counted > turnFree:
		t.counted, t.long = 0, true
		t.take()
	}
}

// Rest ends the turn, if the computation has one. The next Work takes one again. It may be called at any time, also
// twice.
func (t *Turn) Rest() {
	if !t.held {
		return
	}
	t.held = false
	t.turns.mu.Lock()
	t.turns.passLocked()
	t.turns.mu.Unlock()
}

// take waits for a turn. t.held is set by the goroutine of t only.
func (t *Turn) take() {
	t.turns.mu.Lock()
	now := t.turns.takeLocked(t)
	t.turns.mu.Unlock()
	if !now {
		t.waiter.Wait()
	}
	t.held = true
}

// offer gives the turn to the next computation and waits for another one, if any computation waits. After it, t has a
// turn again.
func (t *Turn) offer() {
	t.turns.mu.Lock()
	now := t.turns.offerLocked(t)
	t.turns.mu.Unlock()
	if !now {
		t.waiter.Wait()
	}
}

// takeLocked gives a turn to t, or queues t and returns false. mu is held.
func (s *turns) takeLocked(t *Turn) bool {
	if s.free > 0 {
		s.free--
		return true
	}
	s.enqueueLocked(t)
	return false
}

// offerLocked returns true if no computation waits. Otherwise it queues t, and the next one in the queue takes its
// turn. mu is held. The number of turns does not change.
func (s *turns) offerLocked(t *Turn) bool {
	next := s.nextLocked()
	if next == nil {
		return true
	}
	s.enqueueLocked(t)
	next.waiter.Signal()
	return false
}

// passLocked gives a turn that has ended to the next computation. mu is held.
func (s *turns) passLocked() {
	// The turn passes on without becoming free, so that no later computation can take it.
	if next := s.nextLocked(); next != nil {
		next.waiter.Signal()
		return
	}
	s.free++
}

// enqueueLocked adds a computation to the queue of its owner, and the owner to the order if it was not waiting. mu is
// held. An owner is in order exactly if its queue is not empty.
func (s *turns) enqueueLocked(t *Turn) {
	s.waits++
	if t.waiter == nil {
		t.waiter = s.newWaiter()
	}
	if s.queue == nil {
		s.queue = map[*Owner][]*Turn{}
	}
	waiting := s.queue[t.owner]
	if len(waiting) == 0 {
		s.order = append(s.order, t.owner)
	}
	s.queue[t.owner] = append(waiting, t)
}

// nextLocked removes the next computation from the queue; nil means that none waits. mu is held.
func (s *turns) nextLocked() *Turn {
	if len(s.order) == 0 {
		return nil
	}
	owner := s.order[0]
	waiting := s.queue[owner]
	next := waiting[0]
	// The element is cleared, because the array would keep the computation alive.
	waiting[0] = nil
	s.order = s.order[1:]
	if len(waiting) > 1 {
		s.queue[owner] = waiting[1:]
		// Its other computations follow after one of each other owner.
		s.order = append(s.order, owner)
	} else {
		delete(s.queue, owner)
	}
	return next
}

// Work is Turn.Work for the computations of a request. It belongs to the owner of the request's memory. Call it without
// locks: it may wait.
func (a *Account) Work(n int) {
	if a != nil {
		a.turn.Work(n)
	}
}

// Rest is Turn.Rest for the computations of a request.
func (a *Account) Rest() {
	if a != nil {
		a.turn.Rest()
	}
}

// Owner returns the role of the request, or its address if it has no role. Computations are shared among roles first: a
// role may come from many addresses.
func (a *Account) Owner() *Owner {
	switch {
	case a == nil:
		return nil
	case a.origin.Role != nil:
		return a.origin.Role
	default:
		return a.origin.Address
	}
}

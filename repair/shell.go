package repair

import "sync"

// shell is the part that the shells of this package's machines have in common. It executes steps under its lock, and
// performs their effects without it.
//
// One goroutine at a time performs effects, in their order; it may wait for the disk. Events that arrive meanwhile add
// their effects to its queue, so that calls do not nest.
type shell[V, E any] struct {
	run     func(func()) // performs in a goroutine of its own; nil performs in the caller's goroutine
	step    func(ev *V, out []E) []E
	perform func(e *E)
	// mu also guards the machine, which only steps touch.
	mu struct {
		sync.Mutex
		queue      []E // that are not performed yet
		performing bool
	}
}

// deliver takes an event. The effects are performed by this call, in a goroutine of run, or by the goroutine that
// performs already.
func (s *shell[V, E]) deliver(ev *V) {
	if !s.take(ev) {
		return
	}
	if s.run != nil {
		s.run(s.performAll)
		return
	}
	s.performAll()
}

// take executes the step of an event. It reports whether the caller must perform the queue.
func (s *shell[V, E]) take(ev *V) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.queue = s.step(ev, s.mu.queue)
	// A goroutine that is performing effects also performs the new ones, in their order.
	if s.mu.performing || len(s.mu.queue) == 0 {
		return false
	}
	s.mu.performing = true
	return true
}

// performAll performs the queue until it is empty. If an effect panics, this goroutine ends, and the next event
// performs the effects that follow the one that panicked.
func (s *shell[V, E]) performAll() {
	empty := false
	defer func() {
		if !empty {
			s.abandon()
		}
	}()
	for e, more := s.next(); more; e, more = s.next() {
		s.perform(&e)
	}
	empty = true
}

// abandon ends performing with effects in the queue. The panic that causes it continues to the guard of the caller.
func (s *shell[V, E]) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.performing = false
}

// next removes the first effect of the queue. It returns false when the goroutine must stop to perform.
//
// The end of the queue and the end of performing are noticed under one lock, so that no effect stays in the queue.
func (s *shell[V, E]) next() (e E, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.queue) == 0 {
		s.mu.performing, s.mu.queue = false, nil
		return e, false
	}
	e = s.mu.queue[0]
	s.mu.queue = s.mu.queue[1:]
	return e, true
}

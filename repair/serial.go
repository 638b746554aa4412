package repair

import "sync"

// serial calls functions one after the other: a function that arrives while another runs is called after it. So events
// of one state machine never run concurrently and never nest. They may block on the disk: run calls them in a separate
// goroutine. If run is nil, the first caller runs them.
type serial struct {
	run     func(func())
	mu      sync.Mutex
	queue   []func()
	running bool
}

// do calls f after the functions that were passed before: in this goroutine, in a goroutine of run, or in the one that
// drains already. It may return before f is called.
func (s *serial) do(f func()) {
	s.mu.Lock()
	// Queued in every case: the goroutine that drains, if there is one, calls f after the functions before it.
	s.queue = append(s.queue, f)
	if s.running {
		s.mu.Unlock()
		return
	}
	s.running = true
	s.mu.Unlock()
	// Without mu, because run may call drain before it returns.
	if s.run != nil {
		s.run(s.drain)
		return
	}
	s.drain()
}

// drain calls the queued functions.
func (s *serial) drain() {
	for f := s.next(); f != nil; f = s.next() {
		f()
	}
}

// next returns the next queued function. nil means that none is left: the next call of do drains again.
//
// The end of the queue and the end of running are noticed under one lock, so that no function stays in the queue.
func (s *serial) next() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.running = false
		return nil
	}
	f := s.queue[0]
	s.queue = s.queue[1:]
	return f
}

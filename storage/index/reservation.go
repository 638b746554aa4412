package index

import (
	"sync"

	"cqld/internal/invariant"
)

// reservation is held by one goroutine, or by one commit, at a time. It is not a mutex, because a commit acquires it in
// Enter and releases it in Settle, which are two calls of the engine. The zero value is free. Waiters get it in the
// order of their arrival, so that a build is not delayed without end by commits.
type reservation struct {
	mu   sync.Mutex
	held bool
	// waiting has one channel for each goroutine in acquire.
	waiting []chan struct{} // closed in the order of arrival
}

// acquire waits until the reservation is free, and holds it.
func (r *reservation) acquire() {
	r.mu.Lock()
	if !r.held {
		r.held = true
		r.mu.Unlock()
		return
	}
	mine := make(chan struct{})
	r.waiting = append(r.waiting, mine)
	r.mu.Unlock()
	<-mine // release has passed the reservation on
}

// release passes the reservation to the goroutine that has waited for the longest time, or leaves it free.
func (r *reservation) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	invariant.Check(r.held, "a reservation is released that nothing holds")
	if len(r.waiting) == 0 {
		r.held, r.waiting = false, nil
		return
	}
	// held stays true, so that no third goroutine can acquire the reservation in between.
	close(r.waiting[0])
	r.waiting = r.waiting[1:]
}

package coordinator

import "sync/atomic"

// Panics of operations. An event of an operation runs in the goroutine that delivers it: a peer's stream, a timer,
// storage's committer, or a request. Each event defers a function that recovers: it ends the operation with an error,
// and does not affect the goroutine. Steps hold the mutex of their operation by a deferred unlock, so a panic never
// leaves it. An operation that panicked is never returned to its pool, because its state is unknown.
//
// Without a Guard, in the simulation, the panic continues.

// Continue calls next, which continues an operation and calls done. If next panics before it has called done,
// Continue calls done with the error, because the operation has already given its callback to next. done is called
// exactly once.
func (c *Coordinator) Continue(where string, done func(error), next func(done func(error))) {
	if c.guard == nil {
		next(done)
		return
	}
	// next may call done in another goroutine, while its own panics.
	var called atomic.Bool
	once := func(err error) {
		if called.CompareAndSwap(false, true) {
			done(err)
		}
	}
	defer c.guard.Recover(where, once)
	next(once)
}

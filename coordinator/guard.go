package coordinator

import (
	"sync"
	"sync/atomic"
)

// Panics of operations. An event of an operation runs in the goroutine that delivers it: a peer's stream, a timer,
// storage's committer, or a request. Each event defers guarded. A panic then ends the operation with an error, unlocks
// its mutex, for which other events wait, and does not affect the goroutine. An operation that panicked is never
// returned to its pool, because its reference count is no longer reliable.
//
// Without a Guard, in the simulation, the panic continues.

// guarded is deferred by the events of a read.
func (op *readOp) guarded() {
	if op.c.guard == nil {
		return
	}
	if p := recover(); p != nil {
		op.c.abandon("coordinator read", p, &op.mu, func(err error) {
			if op.done == nil {
				op.mu.Unlock()
				return
			}
			op.refs++
			op.failLocked(err)
		})
	}
}

// Continue calls next, which continues an operation and calls done. If next panics before it has called done, Continue
// calls done with the error, because the operation that panicked no longer has it. done is called once.
func (c *Coordinator) Continue(where string, done func(error), next func(done func(error))) {
	if c.guard == nil {
		next(done)
		return
	}
	var called atomic.Bool
	once := func(err error) {
		if called.CompareAndSwap(false, true) {
			done(err)
		}
	}
	defer c.guard.Recover(where, once)
	next(once)
}

// abandon ends an operation after an event has panicked. It calls end with mu locked; end unlocks it.
func (c *Coordinator) abandon(where string, panicked any, mu *sync.Mutex, end func(error)) {
	err := c.guard.Caught(where, panicked)
	c.guard.Abandon(mu, func() { end(err) })
}

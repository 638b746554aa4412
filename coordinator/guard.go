package coordinator

import (
	"sync"
	"sync/atomic"
)

// Panics of operations. An event of an operation runs on the goroutine of whatever completes: a peer's stream, a timer,
// storage's committer, or a request. Each defers guarded, so that a panic ends the operation with an error, frees its
// mutex, which other replicas' answers wait for, and leaves that goroutine as it was. An operation that panicked never
// goes back to its pool: how often it is referenced is not known any more.
//
// Without a Guard, in the simulation, the panic goes on.

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

// guarded is deferred by the events of a range read.
func (op *rangeOp) guarded() {
	if op.c.guard == nil {
		return
	}
	if p := recover(); p != nil {
		op.c.abandon("coordinator range read", p, &op.mu, func(err error) {
			if op.done == nil {
				op.mu.Unlock()
				return
			}
			op.finish(nil, err)
		})
	}
}

// guarded is deferred by the events of a write. What replicas have applied stays applied.
func (op *writeOp) guarded() {
	if op.c.guard == nil {
		return
	}
	if p := recover(); p != nil {
		op.c.abandon("coordinator write", p, &op.mu, func(err error) {
			done := op.done
			op.done = nil
			op.mu.Unlock()
			op.c.writeBytes.Add(-op.size)
			if done != nil {
				op.conclude(done, err)
			}
		})
	}
}

// guarded is deferred by the events of a write that asks for timestamps first.
func (op *orderOp) guarded() {
	if op.c.guard == nil {
		return
	}
	if p := recover(); p != nil {
		op.c.abandon("coordinator ordered write", p, &op.mu, func(err error) {
			if op.done == nil {
				op.mu.Unlock()
				return
			}
			op.concludeLocked()(err)
		})
	}
}

// handOver calls next, which ends an operation by another one that calls done. When next panics before it has called done,
// done gets the error: the operation that panicked does not have it any more. done is called once.
func (c *Coordinator) handOver(where string, done func(error), next func(done func(error))) {
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

// abandon ends an operation of which an event panicked: end is called with mu locked, and unlocks it.
func (c *Coordinator) abandon(where string, panicked any, mu *sync.Mutex, end func(error)) {
	err := c.guard.Caught(where, panicked)
	c.guard.Abandon(mu, func() { end(err) })
}

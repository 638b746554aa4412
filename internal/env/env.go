// Package env is the one door to what cannot be repeated: the time and chance. The rooms of the
// core get these handed in by node, or by the simulation, and ask nothing else.
//
// It is not a scheduler: code that waits stands above the core, and waits by a Waiter. The network is
// messaging.Transport, the disk storage's file system.
package env

import "time"

// Clock tells the time and calls back later. The real one is in node; the simulation's moves only
// between events.
type Clock interface {
	// Now is the wall clock, which may jump.
	Now() time.Time
	// Monotonic never goes back; only differences mean anything.
	Monotonic() time.Duration
	// After calls f once, not before d has passed. f must not block.
	After(d time.Duration, f func()) Timer
}

// Timer is a callback that has not happened yet.
type Timer interface {
	// Stop cancels the callback; false when it has been called or is being called.
	Stop() bool
}

// Rand is a stream of random numbers. Every subsystem has a stream of its own, so that one drawing
// more does not change what another draws. Not safe for concurrent use unless said so.
type Rand interface {
	Uint64() uint64
}

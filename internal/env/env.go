// Package env is the only source of nondeterminism: time and randomness. The core packages receive both from package
// node or from the simulation, and use no other source.
//
// It is not a scheduler: code that waits is above the core, and uses a Waiter. The network is messaging.Transport, the
// disk is the file system of package storage.
package env

import "time"

// Clock returns the time and runs callbacks later. The production clock is in package node; the simulation's clock
// advances only between events.
type Clock interface {
	// Now returns the wall clock time, which may jump.
	Now() time.Time
	// Monotonic returns a time that never goes back. Only differences are meaningful.
	Monotonic() time.Duration
	// After calls f once, when at least d has passed. f must not block.
	After(d time.Duration, f func()) Timer
}

// Timer is a scheduled callback.
type Timer interface {
	// Stop cancels the callback. It returns false if the callback has run or is running.
	Stop() bool
}

// Rand is a stream of random numbers. Every subsystem has its own stream, so that additional draws of one do not change
// the numbers of another. It is not safe for concurrent use unless the implementation documents it.
type Rand interface {
	Uint64() uint64
}

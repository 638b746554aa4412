// Package latch excludes commits and overwrites of the same partition from each other.
package latch

import (
	"math/bits"
	"sync"

	"cqld/ring"
)

// Latches exclude a commit and an overwrite of the same partition from each other. There are as many stripes as a
// word has bits, so that one word represents the stripes of a whole commit. A holder waits for no disk.
type Latches struct {
	Off     bool // tests: Lock does nothing
	stripes [64]struct {
		sync.RWMutex
		_ [40]byte // a cache line for each
	}
}

// StripeOf returns the stripe of a partition, as a bit.
func StripeOf(t ring.Token) uint64 { return 1 << (uint64(t) & 63) }

// AllStripes is the set of all stripes.
const AllStripes = ^uint64(0)

// RLock takes the read side of the stripes of set, in order, so that no two holders wait for each other.
func (l *Latches) RLock(set uint64) {
	for ; set != 0; set &= set - 1 {
		l.stripes[bits.TrailingZeros64(set)].RLock()
	}
}

// RUnlock releases the read side.
func (l *Latches) RUnlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		l.stripes[bits.TrailingZeros64(set)].RUnlock()
	}
}

// Lock takes the write side of the stripes of set, in order.
func (l *Latches) Lock(set uint64) {
	if l.Off {
		return
	}
	for ; set != 0; set &= set - 1 {
		l.stripes[bits.TrailingZeros64(set)].Lock()
	}
}

// Unlock releases the write side.
func (l *Latches) Unlock(set uint64) {
	if l.Off {
		return
	}
	for ; set != 0; set &= set - 1 {
		l.stripes[bits.TrailingZeros64(set)].Unlock()
	}
}

package storage

import (
	"math/bits"
	"sync"

	"cqld/ring"
)

// latches exclude a commit and an overwrite of the same partition from each other. There are as many stripes as a
// word has bits, so that one word represents the stripes of a whole commit.
type latches struct {
	off     bool // Options.noLatch
	stripes [64]struct {
		sync.RWMutex
		_ [40]byte // a cache line for each
	}
}

// stripeOf returns the stripe of a partition, as a bit.
func stripeOf(t ring.Token) uint64 { return 1 << (uint64(t) & 63) }

// allStripes is the set of all stripes.
const allStripes = ^uint64(0)

// rLock takes the read side of the stripes of set, in order, so that no two holders wait for each other.
func (l *latches) rLock(set uint64) {
	for ; set != 0; set &= set - 1 {
		l.stripes[bits.TrailingZeros64(set)].RLock()
	}
}

func (l *latches) rUnlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		l.stripes[bits.TrailingZeros64(set)].RUnlock()
	}
}

// lock takes the write side of the stripes of set, in order.
func (l *latches) lock(set uint64) {
	if l.off {
		return
	}
	for ; set != 0; set &= set - 1 {
		l.stripes[bits.TrailingZeros64(set)].Lock()
	}
}

func (l *latches) unlock(set uint64) {
	if l.off {
		return
	}
	for ; set != 0; set &= set - 1 {
		l.stripes[bits.TrailingZeros64(set)].Unlock()
	}
}

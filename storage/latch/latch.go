// Package latch excludes commits and overwrites of the same partition from each other. A commit takes the read side of
// the stripes of its partitions, an overwrite the write side, between its read of a row and the write of the result: a
// commit in between would be lost.
//
//	commit     RLock ─ batch ─ RUnlock        any number at a time
//	overwrite  Lock ─ read ─ write ─ Unlock   alone in its stripes
package latch

import (
	"math/bits"
	"sync"
	"time"

	"cqld/internal/invariant"
	"cqld/ring"
)

// Latches exclude a commit and an overwrite of the same partition from each other. There are as many stripes as a
// word has bits, so that one word represents the stripes of a whole commit. No holder waits for the disk, except an
// ingestion.
type Latches struct {
	stripes [64]struct {
		sync.RWMutex
		_ [40]byte // a cache line for each
	}
}

// StripeOf returns the stripe of a partition, as a bit. Unrelated partitions may share a stripe, and then exclude each
// other needlessly.
func StripeOf(t ring.Token) uint64 { return 1 << (uint64(t) & 63) }

// AllStripes is the set of all stripes.
const AllStripes = ^uint64(0)

// RLock takes the read side of the stripes of set, in order, so that no two holders wait for each other. set must be
// the same in RUnlock.
func (l *Latches) RLock(set uint64) {
	// set & (set-1) clears the lowest bit, so the stripes are taken in ascending order.
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

// tries and tryEvery bound how long Lock yields to holders of the read side.
const (
	tries    = 1_000
	tryEvery = 100 * time.Microsecond
)

// Lock takes the write side of the stripes of set. A goroutine that waits for the write side of a mutex keeps others
// from the read side, and the holder of the read side may be an ingestion that waits for the disk: commits would wait
// for it, too. Lock therefore takes all stripes or none for 0.1 s, and only then waits for each, in order.
func (l *Latches) Lock(set uint64) {
	invariant.Check(set != 0, "latch: an overwrite of no partition")
	for range tries {
		if l.tryLock(set) {
			return
		}
		time.Sleep(tryEvery)
	}
	for ; set != 0; set &= set - 1 {
		l.stripes[bits.TrailingZeros64(set)].Lock()
	}
}

// tryLock takes the write side of all stripes of set, or of none.
func (l *Latches) tryLock(set uint64) bool {
	for rest := set; rest != 0; rest &= rest - 1 {
		if !l.stripes[bits.TrailingZeros64(rest)].TryLock() {
			// Only the stripes before this one were taken.
			l.Unlock(set &^ rest)
			return false
		}
	}
	return true
}

// Unlock releases the write side.
func (l *Latches) Unlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		l.stripes[bits.TrailingZeros64(set)].Unlock()
	}
}

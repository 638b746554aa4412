// Package pause counts slow commits by the cause of their wait.
//
// Commits of an engine are serialized, so all writes of the node wait while one does. Pebble counts only the waits
// that it imposes itself ("write stalls"), for too many memtables or files. A commit also waits for a latch, and for
// the switch to a new log when a memtable is full. During the rest of its duration, its goroutine did not run,
// because the processor was busy or the memory of a new memtable was not yet mapped.
package pause

import (
	"sync/atomic"
	"time"

	"cqld/internal/invariant"

	"github.com/cockroachdb/pebble/v2"
)

// Min is the duration from which a commit, or its fsync, counts as a pause.
const Min = 100 * time.Millisecond

// Cause is the reason for which a commit waited.
type Cause uint8

// The causes.
const (
	Latch Cause = iota // a purge or a removal of the same partitions
	Stall              // a flush or a compaction
	Log                // the end of a full memtable's log, and a new log
	Other              // processor or memory

	causes
)

// String returns the name of the cause in metrics.
func (c Cause) String() string { return [causes]string{"latch", "stall", "log", "other"}[c] }

// CauseOf returns the cause of the longest part of a commit's duration.
func CauseOf(took, latch time.Duration, s pebble.BatchCommitStats) Cause {
	parts := [causes]time.Duration{
		Latch: latch,
		Stall: s.SemaphoreWaitDuration + s.WALQueueWaitDuration +
			s.MemTableWriteStallDuration + s.L0ReadAmpWriteStallDuration,
		Log: s.WALRotationDuration,
	}
	parts[Other] = took - parts[Latch] - parts[Stall] - parts[Log]
	largest := Other
	for c, d := range parts {
		if d > parts[largest] {
			largest = Cause(c)
		}
	}
	invariant.Check(largest < causes, "pause: unknown cause")
	return largest
}

// Durations counts waits and keeps the longest. Note is called by one goroutine at a time, the other methods by any.
type Durations struct {
	count, longest atomic.Int64
}

// Note counts a wait if it took at least Min, and reports whether it did.
func (d *Durations) Note(took time.Duration) bool {
	if took < Min {
		return false
	}
	d.count.Add(1)
	d.longest.Store(max(d.longest.Load(), int64(took)))
	return true
}

// Count returns the number of waits.
func (d *Durations) Count() int64 { return d.count.Load() }

// Longest returns the duration of the longest wait.
func (d *Durations) Longest() time.Duration { return time.Duration(d.longest.Load()) }

// Counts counts pauses of commits by cause. Note is called by one goroutine at a time, the other methods by any.
type Counts [causes]Durations

// Note counts a commit if it was a pause. took is its duration, and latch the part of it spent waiting for latches.
func (c *Counts) Note(took, latch time.Duration, s pebble.BatchCommitStats) {
	if took >= Min {
		c[CauseOf(took, latch, s)].Note(took)
	}
}

// Count returns the number of pauses.
func (c *Counts) Count() (n int64) {
	for i := range c {
		n += c[i].Count()
	}
	return n
}

// Longest returns the duration of the longest pause.
func (c *Counts) Longest() (d time.Duration) {
	for i := range c {
		d = max(d, c[i].Longest())
	}
	return d
}

// ByCause returns the number of pauses by the name of their cause. Each cause is a key.
func (c *Counts) ByCause() map[string]int64 {
	m := make(map[string]int64, causes)
	for i := range c {
		m[Cause(i).String()] = c[i].Count()
	}
	return m
}

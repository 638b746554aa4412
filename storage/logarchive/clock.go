package logarchive

import (
	"slices"
	"sync"
)

// Clock stamps batches. Its stamps increase, even across restarts. It tracks the stamps of batches that are not in
// the log yet. It is safe for concurrent use.
type Clock struct {
	next func() int64

	mu struct {
		sync.Mutex
		open []int64 // stamps of batches that may not be in the log yet; a few
		last int64   // the greatest stamp
	}
}

// NewClock returns a clock that takes its stamps from next, which returns unique, increasing microseconds. They are
// greater than last, the greatest stamp of an earlier process.
func NewClock(next func() int64, last int64) *Clock {
	c := &Clock{next: next}
	c.mu.last = last
	return c
}

// takeLocked returns the next stamp.
func (c *Clock) takeLocked() int64 {
	// The clock of the machine may have been set back while no process ran.
	c.mu.last = max(c.mu.last+1, c.next())
	return c.mu.last
}

// take returns a stamp that belongs to no batch.
func (c *Clock) take() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeLocked()
}

// Begin returns the stamp of a batch. The caller must call End when the batch is in the log or has failed.
func (c *Clock) Begin() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The stamp is drawn and added to open under one lock, so that until cannot return a later time in between. The
	// slice keeps its memory.
	stamp := c.takeLocked()
	c.mu.open = append(c.mu.open, stamp)
	return stamp
}

// End records that the batch with a stamp is in the log, or has failed.
func (c *Clock) End(stamp int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The list is short: the committer has one batch in progress; purges, removals and local values have a few more.
	if i := slices.Index(c.mu.open, stamp); i >= 0 {
		c.mu.open = slices.Delete(c.mu.open, i, i+1)
	}
}

// until returns a time: batches that are not in the log have later stamps.
func (c *Clock) until() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.open) > 0 {
		return slices.Min(c.mu.open) - 1
	}
	// No batch is open. A new stamp is drawn, so that the next batch has a later one.
	return c.takeLocked()
}

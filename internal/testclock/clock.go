// Package testclock provides a clock for tests. Its time changes only when the test advances it, and its timers run in
// the goroutine of the test. It is for units whose only concurrency is timers. Simulations of several nodes have
// package simulation/kernel instead, which orders messages as well.
package testclock

import (
	"container/heap"
	"time"

	"cqld/internal/env"
)

// origin is the wall time at which a Clock starts. Not zero, so that a time that was never set is noticed.
const origin = 1_000_000 // seconds since 1970

// Clock is an env.Clock that stands still until Advance or Skip is called. The zero value is ready for use. It is not
// safe for concurrent use.
type Clock struct {
	elapsed time.Duration
	timers  timerHeap
	created int // timers
}

// Now implements env.Clock.
func (c *Clock) Now() time.Time { return time.Unix(origin, 0).Add(c.elapsed) }

// Monotonic implements env.Clock. It begins at zero.
func (c *Clock) Monotonic() time.Duration { return c.elapsed }

// After implements env.Clock. Advance calls f; a negative d counts as zero. f may create and stop timers.
func (c *Clock) After(d time.Duration, f func()) env.Timer {
	c.created++
	t := &timer{at: c.elapsed + max(d, 0), order: c.created, f: f}
	heap.Push(&c.timers, t)
	return t
}

// Advance moves the time forward by d and runs the timers that expire, each at its own time. Timers of the same time
// run in the order in which they were created. A timer that f creates runs in the same call, if it expires by its end.
func (c *Clock) Advance(d time.Duration) {
	end := c.elapsed + d
	for len(c.timers) > 0 && c.timers[0].at <= end {
		t := heap.Pop(&c.timers).(*timer)
		if t.stopped {
			continue
		}
		// Time never goes back, even after Skip.
		c.elapsed, t.stopped = max(c.elapsed, t.at), true
		t.f()
	}
	c.elapsed = end
}

// Skip moves the time forward by d without running timers. Those that expired meanwhile run in the next Advance. It is
// what a process sees that was suspended.
func (c *Clock) Skip(d time.Duration) { c.elapsed += d }

// timer is an entry of the heap. A stopped one stays there until its time.
type timer struct {
	at      time.Duration
	order   int
	f       func()
	stopped bool
}

// Stop implements env.Timer. It returns false if the timer has run or was stopped before.
func (t *timer) Stop() bool {
	was := t.stopped
	t.stopped = true
	return !was
}

// timerHeap orders timers by time, and timers of the same time by creation. The second key makes runs repeatable.
type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, k int) bool {
	return h[i].at < h[k].at || h[i].at == h[k].at && h[i].order < h[k].order
}
func (h timerHeap) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(*timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

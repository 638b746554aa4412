package cqldtest

import (
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/env"
)

// Clock is the wall clock of all nodes of a Cluster. It runs at the speed of real time, and Advance moves it forward.
// Timestamps, TTLs, gc_grace_seconds and the hint window follow it. Timeouts, heartbeats and the failure detector stay in
// real time: a ring whose clock moves by a week loses no node. It is safe for concurrent use.
type Clock struct {
	offset atomic.Int64 // ns
}

// NewClock returns a clock that shows start now. Clients must not send timestamps of their own that are more than a minute
// ahead of it: nodes reject them.
func NewClock(start time.Time) *Clock {
	c := &Clock{}
	c.offset.Store(int64(time.Until(start)))
	return c
}

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// Advance moves the clock forward by d. It panics if d is negative: earlier writes would have timestamps of the future. See
// Node.SkewClock for a node whose clock is wrong.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic("cqldtest: a clock cannot go back")
	}
	c.offset.Add(int64(d))
}

// Set moves the clock forward to t. It panics if the clock is beyond t.
func (c *Clock) Set(t time.Time) { c.Advance(t.Sub(c.Now())) }

// processClock is the clock of one incarnation of a node. Its timers do not fire while the node is paused; those that were due
// fire when the node resumes.
type processClock struct {
	*Clock
	started time.Time
	skew    *atomic.Int64 // ns; of the node
	paused  *gate

	mu   sync.Mutex
	held []*timer // due while the node was paused
}

// Now implements env.Clock.
func (c *processClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.skew.Load())) }

// Monotonic implements env.Clock.
func (c *processClock) Monotonic() time.Duration { return time.Since(c.started) }

// After implements env.Clock.
func (c *processClock) After(d time.Duration, f func()) env.Timer {
	t := &timer{clock: c, f: f}
	c.mu.Lock() // fire must find t.timer
	defer c.mu.Unlock()
	t.timer = time.AfterFunc(d, t.fire)
	return t
}

// release fires the timers that are held. The gate is open.
func (c *processClock) release() {
	c.mu.Lock()
	var due []*timer
	for _, t := range c.held {
		if t.held { // else it was stopped
			t.held = false
			due = append(due, t)
		}
	}
	c.held = nil
	c.mu.Unlock()
	for _, t := range due {
		t.f()
	}
}

// timer is an env.Timer of a processClock.
type timer struct {
	clock *processClock
	timer *time.Timer
	f     func()
	held  bool // it is in clock.held; clock.mu guards it
}

// fire calls the callback, or holds it while the node is paused.
func (t *timer) fire() {
	t.clock.mu.Lock()
	if t.clock.paused.isShut() {
		t.held = true
		t.clock.held = append(t.clock.held, t)
		t.clock.mu.Unlock()
		return
	}
	t.clock.mu.Unlock()
	t.f()
}

// Stop implements env.Timer.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	held := t.held
	t.held = false
	return t.timer.Stop() || held
}

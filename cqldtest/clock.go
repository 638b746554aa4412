package cqldtest

import (
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/env"
)

// Clock is the wall clock of all nodes of a Cluster. It runs at the speed of real time, and Advance moves it forward.
// Timestamps, TTLs, gc_grace_seconds and the hint window use it. Timeouts, heartbeats and the failure detector use real
// time, so that nodes stay up if the clock moves by a week. It is safe for concurrent use.
//
// All nodes have the same time except for Node.SkewClock, as nodes with NTP do.
type Clock struct {
	// offset is added to the machine's clock; it only grows after NewClock.
	offset atomic.Int64 // ns
}

// NewClock returns a clock that shows start now. Timestamps that clients set must be at most a minute ahead of it:
// nodes reject others. start may be in the past or in the future.
func NewClock(start time.Time) *Clock {
	c := &Clock{}
	c.offset.Store(int64(time.Until(start)))
	return c
}

// Now returns the time that the clock shows. It is not monotonic for the caller if the machine's clock is set back.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// Advance moves the clock forward by d. It panics if d is negative, because earlier writes would then have timestamps
// in the future. Node.SkewClock sets a wrong clock for one node. TTLs expire and tombstones become purgeable at once;
// background work that is due then runs at its own pace.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic("cqldtest: a clock cannot go back")
	}
	c.offset.Add(int64(d))
}

// Set moves the clock forward to t. It panics if the clock is past t. Another goroutine that advances the clock at the
// same time may make it pass t.
func (c *Clock) Set(t time.Time) { c.Advance(t.Sub(c.Now())) }

// processClock is the clock of one incarnation of a node. Its timers do not fire while the node is paused; timers that
// expired meanwhile fire when the node resumes. Only timers are held: Now and Monotonic continue during a pause, as
// they do for a stopped process.
type processClock struct {
	*Clock
	started time.Time
	skew    *atomic.Int64 // ns; of the node
	// Shared with the network and the disk of the incarnation.
	paused *gate

	mu   sync.Mutex
	held []*timer // expired while the node was paused
}

// Now implements env.Clock.
func (c *processClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.skew.Load())) }

// Monotonic implements env.Clock. It begins at the start of the incarnation.
func (c *processClock) Monotonic() time.Duration { return time.Since(c.started) }

// After implements env.Clock. f runs in a goroutine of its own, as with time.AfterFunc, or in the goroutine of Resume.
func (c *processClock) After(d time.Duration, f func()) env.Timer {
	// The lock is held while the timer is made: fire may run before AfterFunc returns.
	t := &timer{clock: c, f: f}
	c.mu.Lock() // fire must find t.timer
	defer c.mu.Unlock()
	t.timer = time.AfterFunc(d, t.fire)
	return t
}

// release fires the held timers. The gate must be open. It calls the callbacks without the lock, because they may start
// and stop timers.
func (c *processClock) release() {
	c.mu.Lock()
	var due []*timer
	for _, t := range c.held {
		if t.held { // false if it was stopped
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

// timer is an env.Timer of a processClock. A timer that fired or was stopped does nothing more.
type timer struct {
	clock *processClock
	timer *time.Timer
	f     func()
	held  bool // it is in clock.held; guarded by clock.mu
}

// fire calls the callback, or holds it while the node is paused. The gate is checked under the lock, so that release
// misses no timer.
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

// Stop implements env.Timer. A held timer counts as stopped before it fired. It does not wait for a callback that runs.
func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	held := t.held
	t.held = false
	return t.timer.Stop() || held
}

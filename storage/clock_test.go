package storage

import (
	"sync"
	"time"

	"cqld/internal/env"
)

// testClock is a clock that a test moves.
type testClock struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*testTimer]time.Time
}

type testTimer struct {
	c *testClock
	f func()
}

func newTestClock() *testClock {
	return &testClock{now: time.Unix(1_000_000, 0), timers: map[*testTimer]time.Time{}}
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) Monotonic() time.Duration { return c.Now().Sub(time.Unix(0, 0)) }

func (c *testClock) After(d time.Duration, f func()) env.Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &testTimer{c, f}
	c.timers[t] = c.now.Add(d)
	return t
}

func (t *testTimer) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	_, waiting := t.c.timers[t]
	delete(t.c.timers, t)
	return waiting
}

// advance advances the clock and runs due callbacks.
func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var due []func()
	for t, at := range c.timers {
		if !at.After(c.now) {
			due = append(due, t.f)
			delete(c.timers, t)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}

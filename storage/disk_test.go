package storage

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/storage/space"
)

// nextTimer returns the time until the first timer of the clock.
func (c *testClock) nextTimer() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := time.Duration(-1)
	for _, at := range c.timers {
		if d := at.Sub(c.now); first < 0 || d < first {
			first = d
		}
	}
	return first
}

// TestIdleEngineRests checks how often the free space is checked: rarely while nothing is written, soon after a write,
// and often while the disk is full.
func TestIdleEngineRests(t *testing.T) {
	var free, checks atomic.Int64
	free.Store(1 << 40)
	clock := newTestClock()
	e := openTest(t, Options{FS: vfs.NewMem(), Clock: clock, BallastBytes: -1, NoSweep: true,
		FreeSpace: func() (int64, int64) {
			checks.Add(1)
			return free.Load(), 1 << 40
		}})
	defer e.Close()
	// advance moves the clock to the next timer once it is armed for one of the given times.
	advance := func(want ...time.Duration) {
		t.Helper()
		await.Until(t, "the watcher's next check", func() bool { return slices.Contains(want, clock.nextTimer()) })
		before := checks.Load()
		clock.advance(clock.nextTimer())
		await.Until(t, "a check of the free space", func() bool { return checks.Load() != before })
	}
	for range 3 { // opening has written
		advance(space.Every, space.Rest)
	}
	for range 20 {
		advance(space.Rest)
	}
	if err := apply(e, putRow("a", 1, 1, "x")); err != nil {
		t.Fatal(err)
	}
	free.Store(0)
	advance(space.Every)
	if err := apply(e, putRow("a", 1, 2, "x")); err == nil {
		t.Fatal("a full disk accepts a write")
	}
	for range 20 {
		advance(space.Every)
	}
	free.Store(1 << 40)
	advance(space.Every)
	if err := apply(e, putRow("a", 1, 2, "x")); err != nil {
		t.Fatal(err)
	}
}

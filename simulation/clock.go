package simulation

import (
	"time"

	"cqld/internal/env"
)

// wallClock is what a machine takes for the time of day: it is off, drifts and jumps. Zero is right.
type wallClock struct {
	offset time.Duration
	since  time.Duration // when the drift began
	drift  int64         // millionths
}

// at is the difference to true time at a moment.
func (w *wallClock) at(now time.Duration) time.Duration {
	return w.offset + time.Duration(int64(now-w.since)*w.drift/1_000_000)
}

// setDrift makes the clock go wrong by so many millionths from now on.
func (w *wallClock) setDrift(now time.Duration, millionths int64) {
	w.offset, w.since, w.drift = w.at(now), now, millionths
}

// clock is a process's clock.
type clock struct{ life *life }

var _ env.Clock = clock{}

// stampAhead is how far a stamp may be ahead of a node's clock: the default of
// maximum_timestamp_fail_threshold.
const stampAhead = time.Minute

// epoch is when simulated time begins.
const epoch = 1_700_000_000

// Now implements env.Clock.
func (c clock) Now() time.Time {
	now := c.life.node.cluster.kernel.Now()
	return time.Unix(epoch, 0).Add(now + c.life.node.wall.at(now))
}

// Monotonic implements env.Clock.
func (c clock) Monotonic() time.Duration { return c.life.node.cluster.kernel.Now() + time.Hour }

// pacedClock is the clock of the part that has heartbeats: its seconds are as many of the others'.
type pacedClock struct{ clock }

// pace is how many.
func (l *life) pace() int { return max(1, l.node.cluster.options.Pace) }

// Monotonic implements env.Clock.
func (c pacedClock) Monotonic() time.Duration {
	return c.clock.Monotonic() / time.Duration(c.life.pace())
}

// After implements env.Clock.
func (c pacedClock) After(d time.Duration, f func()) env.Timer {
	return c.clock.After(d*time.Duration(c.life.pace()), f)
}

// After implements env.Clock.
func (c clock) After(d time.Duration, f func()) env.Timer {
	return c.life.node.cluster.kernel.After(d, "timer", func() {
		if c.life.alive() {
			c.life.do(func() { c.life.at(onTimer, f) })
		}
	})
}

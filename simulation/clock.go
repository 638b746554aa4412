package simulation

import (
	"time"

	"cqld/internal/env"
	"cqld/simulation/goroutine"
)

// wallClock is a machine's clock: its difference to true time. It has an offset, drifts and jumps. Zero is correct.
// Durations are signed: a negative offset is a clock that is behind. The fault kinds of nemesis_clocks.go change it.
type wallClock struct {
	// offset is the difference at the time since.
	offset time.Duration
	// since is when the drift began, and drift its rate in parts per million.
	since time.Duration
	drift int64 // parts per million
}

// at returns the difference to true time. drift is in parts per million: with 500, the clock gains 0.5 ms in each
// second.
func (w *wallClock) at(now time.Duration) time.Duration {
	return w.offset + time.Duration(int64(now-w.since)*w.drift/1_000_000)
}

// setDrift sets the drift from now on, in parts per million.
func (w *wallClock) setDrift(now time.Duration, millionths int64) {
	// The drift so far becomes part of the offset, so the clock does not jump when its rate changes.
	w.offset, w.since, w.drift = w.at(now), now, millionths
}

// clock is a process's clock.
// Its wall time differs from true time as the clock of the machine does. Its monotonic time is exact: faults change
// only wall clocks. Its timers end with the process, and wait while the process is paused.
type clock struct{ process *process }

var _ env.Clock = clock{}

// stampAhead is how far a node's timestamps follow the clocks of other nodes, as in package node.
const stampAhead = time.Minute

// epoch is the start of simulated time. In Unix seconds, that is 14 November 2023.
const epoch = 1_700_000_000

// Now implements env.Clock.
func (c clock) Now() time.Time {
	now := c.process.node.cluster.kernel.Now()
	return time.Unix(epoch, 0).Add(now + c.process.node.wall.at(now))
}

// Monotonic implements env.Clock. It begins at an hour, so it is never zero.
func (c clock) Monotonic() time.Duration { return c.process.node.cluster.kernel.Now() + time.Hour }

// pacedClock is the clock of the heartbeats: one of its seconds is pace seconds of the other clocks. Weeks of simulated
// time would otherwise consist mostly of heartbeats.
type pacedClock struct{ clock }

// pace returns the factor of pacedClock.
func (l *process) pace() int { return max(1, l.node.cluster.options.Pace) }

// Monotonic implements env.Clock.
func (c pacedClock) Monotonic() time.Duration {
	return c.clock.Monotonic() / time.Duration(c.process.pace())
}

// After implements env.Clock.
func (c pacedClock) After(d time.Duration, f func()) env.Timer {
	return c.clock.After(d*time.Duration(c.process.pace()), f)
}

// After implements env.Clock. A timer of an ended process does nothing; one of a paused process fires when it resumes
// (goroutine.Scheduler.Do).
func (c clock) After(d time.Duration, f func()) env.Timer {
	return c.process.node.cluster.kernel.After(d, "timer", func() {
		if !c.process.Ended() {
			c.process.Do(func() { c.process.At(goroutine.OnTimer, f) })
		}
	})
}

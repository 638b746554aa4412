package goroutine

import (
	"slices"
	"time"

	"cqld/simulation/kernel"
)

// spawned is a goroutine that a process has started and that has not run yet. In the simulation it runs without a
// pause, as one event. Its time is drawn: within the event that started it, between two entries of the metadata log;
// immediately after it; or later. Code that would block in a goroutine uses a task instead, which can wait.
type spawned struct {
	// f runs once, in event or within Interleave.
	f     func()
	event *kernel.Event
}

// Spawn starts a goroutine of the process. It is the Run option of all parts. f is lost if the process ends first, as a
// goroutine would be.
func (s *Scheduler) Spawn(f func()) {
	// Most goroutines run directly after the present event, some within milliseconds, and a few as if the scheduler
	// had starved them. The chances are in a thousand.
	delay := time.Duration(0)
	switch {
	case s.random.Chance(20):
		delay = s.random.Between(0, 500*time.Millisecond)
	case s.random.Chance(200):
		delay = s.random.Between(0, 5*time.Millisecond)
	}
	g := &spawned{f: f}
	s.spawned = append(s.spawned, g)
	g.event = s.kernel.After(delay, "goroutine", func() {
		// It has not run before: Interleave cancels the event of a goroutine that it runs.
		s.spawned = slices.DeleteFunc(s.spawned, func(o *spawned) bool { return o == g })
		if !s.ended {
			s.Do(f)
		}
	})
}

// Interleave runs some of the waiting goroutines, in a random order. The loop of package cluster calls it after each
// entry of the metadata log, also while the log is replayed.
func (s *Scheduler) Interleave() {
	for range len(s.spawned) {
		// A goroutine may start others, pause the process or end it, so the state is examined again each time.
		if s.paused || len(s.spawned) == 0 || !s.random.Chance(400) {
			continue
		}
		i := s.random.Intn(len(s.spawned))
		g := s.spawned[i]
		s.spawned = slices.Delete(s.spawned, i, i+1)
		// Stop returns false if its own event is the present one.
		if g.event.Stop() {
			s.kernel.Trace("goroutine between entries")
			g.f()
		}
	}
}

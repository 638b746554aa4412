package simulation

import (
	"fmt"
	"slices"
	"time"

	"cqld/simulation/kernel"
)

// spawned is a goroutine that a process has started and that has not run yet. In the simulation it runs without a
// pause, as one event. Its time is drawn: within the event that started it, between two entries of the metadata log;
// immediately after it; or later. Code that would block in a goroutine uses a task instead, which can wait.
type spawned struct {
	// f runs once, in event or within interleave.
	f     func()
	event *kernel.Event
}

// spawn starts a goroutine of the process. It is the Run option of all parts. f is lost if the process ends first, as a
// goroutine would be.
func (l *process) spawn(f func()) {
	if l.schedule == nil {
		n := l.node
		l.schedule = kernel.NewStream(n.cluster.options.Seed, fmt.Sprint("goroutines ", n.id, n.incarnations))
	}
	// Most goroutines run directly after the present event, some within milliseconds, and a few as if the scheduler
	// had starved them. The chances are in a thousand.
	delay := time.Duration(0)
	switch {
	case l.schedule.Chance(20):
		delay = l.schedule.Between(0, 500*time.Millisecond)
	case l.schedule.Chance(200):
		delay = l.schedule.Between(0, 5*time.Millisecond)
	}
	s := &spawned{f: f}
	l.goroutines = append(l.goroutines, s)
	s.event = l.node.cluster.kernel.After(delay, "goroutine", func() {
		// It has not run before: interleave cancels the event of a goroutine that it runs.
		l.goroutines = slices.DeleteFunc(l.goroutines, func(o *spawned) bool { return o == s })
		if l.alive() {
			l.do(f)
		}
	})
}

// interleave runs some of the waiting goroutines, in a random order. The loop of package cluster calls it after each
// entry of the metadata log, also while the log is replayed.
func (l *process) interleave() {
	for range len(l.goroutines) {
		// A goroutine may start others, pause the process or end it, so the state is examined again each time.
		if l.paused || len(l.goroutines) == 0 || !l.schedule.Chance(400) {
			continue
		}
		i := l.schedule.Intn(len(l.goroutines))
		s := l.goroutines[i]
		l.goroutines = slices.Delete(l.goroutines, i, i+1)
		// Stop returns false if its own event is the present one.
		if s.event.Stop() {
			l.node.cluster.kernel.Trace("goroutine between entries")
			s.f()
		}
	}
}

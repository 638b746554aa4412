package messaging

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
)

// TestInvariantsFire returns resources that were not taken, as a bug in a worker or a writer would.
func TestInvariantsFire(t *testing.T) {
	busy := func(tasks, bytes int) *pool {
		p := newPool(DefaultLimits())
		p.mu.tasks, p.mu.bytes = tasks, bytes
		return p
	}
	for name, breaks := range map[string]func(){
		"task ended twice":  func() { busy(0, 0).giveBackLocked(work{}) },
		"bytes given twice": func() { busy(2, 5).giveBackLocked(work{bytes: 6}) },
		"bytes kept":        func() { busy(1, 5).giveBackLocked(work{bytes: 4}) },
		"queue given twice": func() { (&link{t: &StreamTransport{}}).unqueue(1) },
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, breaks, "") })
	}
}

package counters

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
	"cqld/ring"
)

// TestInvariantsFire breaks the invariants of updates and of their leaders, each as a bug in the caller would.
func TestInvariantsFire(t *testing.T) {
	update := func() *ledUpdate { return newLedUpdate("a", ring.One) }
	led := func(updates ...*ledUpdate) *leading { return &leading{updates: updates} }
	asked := func() *updating {
		u, _ := newUpdating()
		u.tried, u.epoch = append(u.tried, 2), 7
		return u
	}
	for name, breaks := range map[string]func(){
		"two queues": func() {
			q := newQueue(queueIdle)
			q.state = queueLeading
			q.checkLocked()
		},
		"two groups":              func() { newQueue(queueLeading, update()).lead(&queueEvent{limit: 1}, nil) },
		"group of nothing":        func() { newQueue(queueScheduled).lead(&queueEvent{limit: 1}, nil) },
		"group ends twice":        func() { newQueue(queueScheduled, update()).play(queueEvent{kind: queuePassed}) },
		"updates without event":   func() { newQueue(queueIdle, update()).checkLocked() },
		"nothing is due":          func() { newQueue(queueScheduled).checkLocked() },
		"two partitions":          func() { led(update(), newLedUpdate("b", ring.One)).begin(0, nil) },
		"two levels":              func() { led(update(), newLedUpdate("a", ring.All)).begin(0, nil) },
		"sent before it is here":  func() { led(update()).replicate(nil) },
		"no answer":               func() { (&leading{state: groupOver, updates: []*ledUpdate{update()}}).check() },
		"reads nothing":           func() { (&leading{state: groupReading, updates: []*ledUpdate{update()}}).check() },
		"answered twice":          func() { update().answer(&Counters{}, nil) },
		"more answers than parts": func() { (&joint{}).count(nil) },
		"node asked twice":        func() { asked().checkPlan(2, 8) },
		"plan of an earlier ring": func() { asked().checkPlan(3, 6) },
		"two leaders": func() {
			u := asked()
			u.state = updateAsked
			u.checkPlan(3, 8)
		},
		"no event awaited": func() { asked().check() },
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, breaks, "") })
	}
}

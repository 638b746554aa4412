package batchlog

import (
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
)

// unarmed is a clock whose timers are only recorded.
type unarmed struct {
	still
	armed []time.Duration
}

type unarmedTimer struct{ env.Timer }

func (unarmedTimer) Stop() bool { return true }

func (c *unarmed) After(d time.Duration, _ func()) env.Timer {
	c.armed = append(c.armed, d)
	return unarmedTimer{}
}

// TestReplayAsksWithoutLocks checks that no lock is held while the coordinator decides whether batches may be replayed,
// and the outcome if the oldest batch was removed, or the log closed, in the meantime.
func TestReplayAsksWithoutLocks(t *testing.T) {
	for name, meanwhile := range map[string]func(*Log){
		"nothing": func(*Log) {},
		"removed": func(l *Log) { l.Forget([]coordinator.RequestID{{Node: 1}}, func(error) {}) },
		"closed":  func(l *Log) { l.Close() },
		"again":   func(l *Log) { l.replayDue() },
	} {
		clock, view, asked := &unarmed{}, aliveView{}, 0
		var l *Log
		c := coordinator.New(coordinator.Options{View: view, Clock: clock, Confirmed: func() bool {
			if asked++; !l.mu.TryLock() {
				t.Errorf("%s: the lock is held", name)
				return false
			}
			l.mu.Unlock()
			meanwhile(l)
			return false
		}})
		l = &Log{view: view, c: c, clock: clock, store: &noStore{}, limits: Limits{}.withDefaults(),
			run: func(f func()) { f() }}
		h := &held{id: coordinator.RequestID{Node: 1}, stored: true}
		l.mu.loaded, l.mu.held = true, map[coordinator.RequestID]*held{}
		l.holdLocked(h)
		l.replayDue()
		retries := 1
		if name == "removed" || name == "closed" {
			retries = 0
		}
		if asked != 1 || l.mu.busy || len(clock.armed) != retries || (l.mu.timer != nil) != (retries == 1) {
			t.Errorf("%s: asked %d times, busy %v, armed %v", name, asked, l.mu.busy, clock.armed)
		}
		if retries == 1 && (clock.armed[0] != l.limits.Retry || len(l.mu.order) != 1) {
			t.Errorf("%s: armed %v, %d batches in order", name, clock.armed, len(l.mu.order))
		}
	}
}

// noStore is a store without records.
type noStore struct{ Store }

func (noStore) DeleteLocal([]byte, bool) error { return nil }

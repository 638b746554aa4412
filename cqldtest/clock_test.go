package cqldtest

import (
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/await"
)

func newTestClock() *processClock {
	return &processClock{Clock: &Clock{}, started: time.Now(), skew: new(atomic.Int64), paused: &gate{}}
}

func TestTimersWaitWhilePaused(t *testing.T) {
	c := newTestClock()
	c.paused.shut()
	var fired, stopped atomic.Int32
	c.After(0, func() { fired.Add(1) })
	second := c.After(0, func() { stopped.Add(1) })
	await.Until(t, "a timer fires", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.held) == 2
	})
	if fired.Load() != 0 {
		t.Fatal("a timer of a paused node fired")
	}
	if !second.Stop() || second.Stop() {
		t.Fatal("a timer that is held can be stopped, once")
	}
	c.paused.open()
	c.release()
	if fired.Load() != 1 || stopped.Load() != 0 {
		t.Fatalf("after the pause %d timers fired, and %d that were stopped", fired.Load(), stopped.Load())
	}
	c.release()
	c.After(0, func() { fired.Add(1) })
	await.Until(t, "a timer fires", func() bool { return fired.Load() == 2 })
}

func TestClocksGoForwardOnly(t *testing.T) {
	start := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	c := NewClock(start)
	if d := c.Now().Sub(start); d < 0 || d > time.Minute {
		t.Fatalf("a new clock is %v after its start", d)
	}
	before := c.Now()
	c.Advance(24 * time.Hour)
	if d := c.Now().Sub(before); d < 24*time.Hour {
		t.Fatalf("Advance moved the clock by %v", d)
	}
	c.Set(start.Add(72 * time.Hour))
	defer func() {
		if recover() == nil {
			t.Fatal("the clock went back")
		}
	}()
	c.Set(start)
}

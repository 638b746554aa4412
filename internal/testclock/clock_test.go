package testclock

import (
	"slices"
	"testing"
	"time"

	"cqld/internal/env"
)

var _ env.Clock = (*Clock)(nil)

func TestTimersRunInTheirOrderAndAtTheirTime(t *testing.T) {
	c := &Clock{}
	type ran struct {
		name string
		at   time.Duration
	}
	var log []ran
	timer := func(name string, d time.Duration) env.Timer {
		return c.After(d, func() { log = append(log, ran{name, c.Monotonic()}) })
	}
	expect := func(want ...ran) {
		t.Helper()
		if !slices.Equal(log, want) {
			t.Errorf("ran %v, want %v", log, want)
		}
		log = nil
	}
	timer("second", 2*time.Second)
	timer("first", time.Second)
	timer("also second", 2*time.Second)
	stopped := timer("stopped", time.Second)
	timer("now", -time.Second)
	c.After(time.Second, func() { timer("nested", time.Second/2) })
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop does not report whether it prevented the timer from running")
	}
	expect()
	c.Advance(0)
	expect(ran{"now", 0})
	c.Advance(2 * time.Second)
	expect(ran{"first", time.Second}, ran{"nested", 3 * time.Second / 2}, ran{"second", 2 * time.Second},
		ran{"also second", 2 * time.Second})
	late := timer("late", time.Second)
	c.Skip(3 * time.Second)
	expect()
	c.Advance(time.Second)
	expect(ran{"late", 5 * time.Second})
	if late.Stop() {
		t.Error("Stop of a timer that has run returns true")
	}
	if got := c.Now().Sub(time.Unix(origin, 0)); got != c.Monotonic() || got != 6*time.Second {
		t.Errorf("the wall clock moved by %v, the monotonic clock by %v", got, c.Monotonic())
	}
}

package liveness

import (
	"testing"
	"time"

	"cqld/ring"
)

func TestNodeDetectsItsClockOffset(t *testing.T) {
	all := func(ring.NodeID) bool { return true }
	for _, x := range []struct {
		name  string
		skews []time.Duration // of three peers, relative to this node
		ahead time.Duration
		out   bool
		alarm bool
	}{
		{"all agree", []time.Duration{0, 0, 0}, 0, false, false},
		{"one peer is off", []time.Duration{0, 10 * time.Second, 0}, 0, false, false},
		{"this node is ahead of all", []time.Duration{-time.Second, -time.Second, -2 * time.Second}, time.Second, true,
			true},
		{"this node is behind all", []time.Duration{time.Second, time.Second, time.Second}, -time.Second, true, true},
		{"a little", []time.Duration{200 * time.Millisecond, 200 * time.Millisecond, 0}, -200 * time.Millisecond,
			false, true},
		{"two and two", []time.Duration{time.Second, time.Second, 0}, -time.Second, false, true},
	} {
		var o Clocks
		for i := range 2 * clockSamples {
			late := int64(i%5) * 3000 // µs on the way
			for peer, skew := range x.skews {
				o.Note(ring.NodeID(peer+2), 1_000_000_000+skew.Microseconds(), 1_000_000_000+late)
			}
		}
		alarm := o.Evaluate(all)
		if got := time.Duration(o.ahead.Load()); got != x.ahead || o.out.Load() != x.out || alarm != x.alarm {
			t.Errorf("%s: ahead %v, out %t, alarm %t", x.name, got, o.out.Load(), alarm)
		}
	}
}

func TestPauseIsNotAClockOffset(t *testing.T) {
	var o Clocks
	all := func(ring.NodeID) bool { return true }
	for range clockSamples {
		o.Note(2, 1_000_000, 1_000_100)
	}
	for i := range clockSamples - 1 { // messages that were queued while this node was paused arrive together
		o.Note(2, 1_000_000+int64(i)*100_000, 9_000_000)
	}
	if o.Evaluate(all); o.out.Load() {
		t.Error("heartbeats that were late made the clock seem off")
	}
	if o.Evaluate(func(ring.NodeID) bool { return false }); o.ahead.Load() != 0 {
		t.Error("dead nodes still count")
	}
}

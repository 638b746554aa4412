package liveness

import (
	"testing"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// timersClock records the functions of its timers by their durations.
type timersClock struct {
	*manualClock
	timers map[time.Duration]func()
}

func (c *timersClock) After(d time.Duration, f func()) env.Timer {
	c.timers[d] = f
	return nil
}

// TestNewNodeAwaitsFirstHeartbeat checks for how long requests wait for an admitted node. A request that was planned
// before the first heartbeat checks after it: the node then still awaits its first heartbeat.
func TestNewNodeAwaitsFirstHeartbeat(t *testing.T) {
	for _, end := range []string{"heard", "heard before", "taken back", "silent"} {
		d, hand, _ := newTestDetector()
		clock := &timersClock{manualClock: hand, timers: map[time.Duration]func(){}}
		events := make(chan func(), 1)
		a := NewArrivals(clock, func(f func()) bool {
			events <- f
			return true
		}, d.Alive)
		topology := (*ring.Topology)(nil)
		awaiting := func() bool { return a.Awaiting(topology) }
		before := ring.NewTopology(1, []*ring.Node{{ID: 1, State: ring.Normal}, {ID: 2, State: ring.Joining}})
		with := ring.NewTopology(2, []*ring.Node{{ID: 1, State: ring.Normal}, {ID: 2, State: ring.Joining},
			{ID: 3, State: ring.Joining}})
		topology = before
		if a.Expect(before, before, 1); awaiting() || len(clock.timers) != 0 {
			t.Error("an existing node is awaiting its first heartbeat")
		}
		if end == "heard before" {
			d.Connected(3, true)
			d.Heartbeat(3)
		}
		topology = with
		if a.Expect(before, with, 1); !awaiting() {
			t.Error("an admitted node is not awaiting its first heartbeat")
		}
		switch end {
		case "heard":
			d.Connected(3, true)
			d.Heartbeat(3)
			a.Arrived(3)
			fallthrough
		case "heard before":
			if !awaiting() {
				t.Error("a request that was planned before the first heartbeat does not wait")
			}
			clock.timers[arrivalSettle]()
			(<-events)()
		case "taken back":
			topology = before
		case "silent":
			hand.now += arrivalPatience
			clock.timers[arrivalPatience]()
			(<-events)()
		}
		if awaiting() {
			t.Errorf("it still awaits the first heartbeat, although it is %s", end)
		}
	}
}

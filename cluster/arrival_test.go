package cluster

import (
	"log/slog"
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
		c := &Cluster{opts: Options{Clock: clock, Logger: slog.New(slog.DiscardHandler)}, detector: d,
			events: make(chan func(), 1), stopped: make(chan struct{})}
		before := ring.NewTopology(1, []*ring.Node{{ID: 1, State: ring.Normal}, {ID: 2, State: ring.Joining}})
		with := ring.NewTopology(2, []*ring.Node{{ID: 1, State: ring.Normal}, {ID: 2, State: ring.Joining},
			{ID: 3, State: ring.Joining}})
		c.meta.Store(&Metadata{Topology: before})
		if c.expect(before, before); c.AwaitingFirstHeartbeat() || len(clock.timers) != 0 {
			t.Error("an existing node is awaiting its first heartbeat")
		}
		if end == "heard before" {
			d.connected(3, true)
			d.heartbeat(3)
		}
		c.meta.Store(&Metadata{Topology: with})
		if c.expect(before, with); !c.AwaitingFirstHeartbeat() {
			t.Error("an admitted node is not awaiting its first heartbeat")
		}
		switch end {
		case "heard":
			d.connected(3, true)
			d.heartbeat(3)
			c.aliveChanged(3, true)
			<-c.events // proposals are checked
			fallthrough
		case "heard before":
			if !c.AwaitingFirstHeartbeat() {
				t.Error("a request that was planned before the first heartbeat does not wait")
			}
			clock.timers[arrivalSettle]()
			(<-c.events)()
		case "taken back":
			c.meta.Store(&Metadata{Topology: before})
		case "silent":
			hand.now += arrivalPatience
			clock.timers[arrivalPatience]()
			(<-c.events)()
		}
		if c.AwaitingFirstHeartbeat() {
			t.Errorf("it still awaits the first heartbeat, although it is %s", end)
		}
	}
}

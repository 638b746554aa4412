package cluster

import (
	"testing"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// onceClock keeps what is to be called.
type onceClock struct {
	*handClock
	then func()
}

func (c *onceClock) After(_ time.Duration, f func()) env.Timer {
	c.then = f
	return nil
}

// TestANodeArrivesUntilItIsHeard shows for how long requests wait for one that was let in.
func TestANodeArrivesUntilItIsHeard(t *testing.T) {
	for _, end := range []string{"heard", "taken back", "silent"} {
		d, hand, _ := newTestDetector()
		clock := &onceClock{handClock: hand}
		c := &Cluster{opts: Options{Clock: clock}, detector: d, events: make(chan func(), 1), stopped: make(chan struct{})}
		before := ring.NewTopology(1, []*ring.Node{{ID: 1, State: ring.Normal}, {ID: 2, State: ring.Joining}})
		with := ring.NewTopology(2, []*ring.Node{{ID: 1, State: ring.Normal}, {ID: 2, State: ring.Joining}, {ID: 3, State: ring.Joining}})
		c.meta.Store(&Metadata{Topology: before})
		if c.expect(before, before); c.Arriving() || clock.then != nil {
			t.Error("a node arrives that was there before")
		}
		c.meta.Store(&Metadata{Topology: with})
		if c.expect(before, with); !c.Arriving() {
			t.Error("a node that was let in does not arrive")
		}
		switch end {
		case "heard":
			d.connected(3, true)
			d.heartbeat(3)
		case "taken back":
			c.meta.Store(&Metadata{Topology: before})
		case "silent":
			hand.now += arrivalPatience
			clock.then()
			(<-c.events)()
		}
		if c.Arriving() {
			t.Errorf("it arrives for ever, though it is %s", end)
		}
	}
}

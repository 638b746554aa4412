package cluster

import (
	"slices"
	"testing"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// manualClock is a clock that the test advances.
type manualClock struct{ now time.Duration }

func (c *manualClock) Now() time.Time                        { return time.Unix(0, int64(c.now)) }
func (c *manualClock) Monotonic() time.Duration              { return c.now }
func (c *manualClock) After(time.Duration, func()) env.Timer { panic("the detector sets no timers") }
func (c *manualClock) pass(d time.Duration, each func())     { c.passBy(d, heartbeatEvery, each) }
func (c *manualClock) passBy(d, step time.Duration, do func()) {
	for end := c.now + d; c.now < end; {
		c.now += step
		do()
	}
}

type transition struct {
	id ring.NodeID
	up bool
}

func newTestDetector() (*detector, *manualClock, *[]transition) {
	clock, transitions := &manualClock{}, &[]transition{}
	d := newDetector(clock, func(id ring.NodeID, up bool) { *transitions = append(*transitions, transition{id, up}) })
	d.self.Store(1)
	return d, clock, transitions
}

func TestPeerIsUpWhenConnectedWithHeartbeat(t *testing.T) {
	d, _, transitions := newTestDetector()
	if !d.Alive(1) {
		t.Error("the node considers itself down")
	}
	d.heartbeat(2) // its stream to this node arrived first
	if d.Alive(2) {
		t.Error("up without a stream to it")
	}
	d.connected(2, true)
	if !d.Alive(2) || !slices.Equal(*transitions, []transition{{2, true}}) {
		t.Errorf("alive %v, reported %v", d.Alive(2), *transitions)
	}
	d.connected(3, true)
	if d.Alive(3) {
		t.Error("up without a heartbeat")
	}
}

// A peer that becomes silent while its stream stays open is down within 2 s, and up after its next heartbeat.
func TestSilenceIsNoticed(t *testing.T) {
	d, clock, transitions := newTestDetector()
	d.connected(2, true)
	clock.pass(10*time.Second, func() { d.heartbeat(2) })
	since := clock.now
	clock.passBy(3*time.Second, tickEvery, func() {
		d.evaluate()
		if silence := clock.now - since; d.Alive(2) != (silence < 1850*time.Millisecond) {
			t.Fatalf("after %v of silence: alive %v", silence, d.Alive(2))
		}
	})
	d.heartbeat(2)
	if want := []transition{{2, true}, {2, false}, {2, true}}; !slices.Equal(*transitions, want) {
		t.Errorf("reported %v, want %v", *transitions, want)
	}
}

// Lost and late heartbeats, as on a busy machine, do not make a peer down.
func TestLateHeartbeatsAreTolerated(t *testing.T) {
	d, clock, transitions := newTestDetector()
	d.connected(2, true)
	beat := 0
	clock.pass(time.Minute, func() {
		if beat++; beat%10 < 3 || beat%100 == 50 { // 700 ms of silence in each second
			d.heartbeat(2)
		}
		d.evaluate()
	})
	if !slices.Equal(*transitions, []transition{{2, true}}) {
		t.Errorf("reported %v", *transitions)
	}
}

// A flapping stream: each loss is detected at once, and a stale heartbeat does not count for the new stream.
func TestFlappingIsReportedInOrder(t *testing.T) {
	d, clock, transitions := newTestDetector()
	for range 5 {
		d.connected(2, true)
		if d.Alive(2) {
			t.Fatal("up because of an earlier heartbeat")
		}
		clock.now += heartbeatEvery
		d.heartbeat(2)
		if !d.Alive(2) {
			t.Fatal("down after a heartbeat")
		}
		d.connected(2, false)
		if d.Alive(2) {
			t.Fatal("up without a stream")
		}
	}
	for i, x := range *transitions {
		if x != (transition{2, i%2 == 0}) {
			t.Errorf("reported %v", *transitions)
		}
	}
	if len(*transitions) != 10 {
		t.Errorf("reported %v", *transitions)
	}
}

func TestRemovedPeerIsDown(t *testing.T) {
	d, _, transitions := newTestDetector()
	d.connected(2, true)
	d.heartbeat(2)
	d.forget(2)
	if d.Alive(2) || !slices.Equal(*transitions, []transition{{2, true}, {2, false}}) {
		t.Errorf("alive %v, reported %v", d.Alive(2), *transitions)
	}
}

package liveness

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
func (c *manualClock) pass(d time.Duration, each func())     { c.passBy(d, HeartbeatEvery, each) }
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

func newTestDetector() (*Detector, *manualClock, *[]transition) {
	clock, transitions := &manualClock{}, &[]transition{}
	d := NewDetector(clock, func(id ring.NodeID, up bool) { *transitions = append(*transitions, transition{id, up}) })
	d.SetSelf(1)
	return d, clock, transitions
}

func TestPeerIsUpWhenConnectedWithHeartbeat(t *testing.T) {
	d, _, transitions := newTestDetector()
	if !d.Alive(1) {
		t.Error("the node considers itself down")
	}
	d.Heartbeat(2) // its stream to this node arrived first
	if d.Alive(2) {
		t.Error("up without a stream to it")
	}
	d.Connected(2, true)
	if !d.Alive(2) || !slices.Equal(*transitions, []transition{{2, true}}) {
		t.Errorf("alive %v, reported %v", d.Alive(2), *transitions)
	}
	d.Connected(3, true)
	if d.Alive(3) {
		t.Error("up without a heartbeat")
	}
}

// A peer that becomes silent while its stream stays open is down within 2 s, and up after its next heartbeat.
func TestSilenceIsNoticed(t *testing.T) {
	d, clock, transitions := newTestDetector()
	d.Connected(2, true)
	clock.pass(10*time.Second, func() { d.Heartbeat(2) })
	since := clock.now
	clock.passBy(3*time.Second, 50*time.Millisecond, func() {
		d.Evaluate()
		if silence := clock.now - since; d.Alive(2) != (silence < 1850*time.Millisecond) {
			t.Fatalf("after %v of silence: alive %v", silence, d.Alive(2))
		}
	})
	d.Heartbeat(2)
	if want := []transition{{2, true}, {2, false}, {2, true}}; !slices.Equal(*transitions, want) {
		t.Errorf("reported %v, want %v", *transitions, want)
	}
}

// Lost and late heartbeats, as on a busy machine, do not make a peer down.
func TestLateHeartbeatsAreTolerated(t *testing.T) {
	d, clock, transitions := newTestDetector()
	d.Connected(2, true)
	beat := 0
	clock.pass(time.Minute, func() {
		if beat++; beat%10 < 3 || beat%100 == 50 { // 700 ms of silence in each second
			d.Heartbeat(2)
		}
		d.Evaluate()
	})
	if !slices.Equal(*transitions, []transition{{2, true}}) {
		t.Errorf("reported %v", *transitions)
	}
}

// A flapping stream: each loss is detected at once, and a stale heartbeat does not count for the new stream.
func TestFlappingIsReportedInOrder(t *testing.T) {
	d, clock, transitions := newTestDetector()
	for range 5 {
		d.Connected(2, true)
		if d.Alive(2) {
			t.Fatal("up because of an earlier heartbeat")
		}
		clock.now += HeartbeatEvery
		d.Heartbeat(2)
		if !d.Alive(2) {
			t.Fatal("down after a heartbeat")
		}
		d.Connected(2, false)
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

// TestOwnPauseConvictsNoPeer pauses this process for a while, during which neither ticks nor heartbeats are handled,
// and evaluates every 250 ms afterwards. Peer 2 sends no heartbeat until it has been silent for so long after the
// pause. Peer 3 was down before the pause.
func TestOwnPauseConvictsNoPeer(t *testing.T) {
	for _, x := range []struct {
		name           string
		pause, silent  time.Duration
		down           bool // peer 2 is reported down
		alive          bool // peer 2 is alive when the first 3 s after the pause have passed
		disconnectedAt time.Duration
	}{
		{name: "heartbeat follows at once", pause: time.Minute, silent: HeartbeatEvery, alive: true},
		{name: "heartbeat follows late", pause: 1900 * time.Millisecond, silent: 3 * HeartbeatEvery, alive: true},
		{name: "peer died during the pause", pause: time.Minute, silent: time.Hour, down: true},
		{name: "peer returns after its conviction", pause: time.Minute, silent: 2 * time.Second, down: true,
			alive: true},
		{name: "shorter than a silence", pause: time.Second, silent: 2 * HeartbeatEvery, alive: true},
		{name: "stream ends", pause: time.Minute, silent: time.Hour, disconnectedAt: HeartbeatEvery, down: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			d, clock, transitions := newTestDetector()
			d.Connected(2, true)
			d.Connected(3, true)
			d.Heartbeat(3)
			clock.pass(10*time.Second, func() { d.Heartbeat(2) })
			*transitions = nil
			clock.now += x.pause
			resumed := clock.now
			for clock.now-resumed < 3*time.Second {
				d.Evaluate()
				if d.Alive(3) {
					t.Fatal("the pause revives a peer that was down before")
				}
				clock.now += HeartbeatEvery
				if after := clock.now - resumed; after >= x.silent {
					d.Heartbeat(2)
				} else if after == x.disconnectedAt {
					d.Connected(2, false)
				}
			}
			if down := slices.Contains(*transitions, transition{2, false}); down != x.down || d.Alive(2) != x.alive {
				t.Errorf("reported %v, alive %v", *transitions, d.Alive(2))
			}
		})
	}
}

// TestOwnPauseIsNoIntervalOfPeer checks that a pause of this process does not slow down the detector: a peer that fails
// afterwards is detected as fast as without a pause.
func TestOwnPauseIsNoIntervalOfPeer(t *testing.T) {
	d, clock, _ := newTestDetector()
	d.Connected(2, true)
	clock.pass(10*time.Second, func() { d.Heartbeat(2) })
	clock.now += time.Minute
	d.Heartbeat(2) // was queued during the pause, and is handled before the first tick
	clock.pass(2*time.Second, d.Evaluate)
	if d.Alive(2) {
		t.Error("a dead peer is alive 2 s after its last heartbeat")
	}
}

// TestOwnPauseLosesNoPeer checks that the last reports of peers count after a pause of this process, as long as after
// their last heartbeats.
func TestOwnPauseLosesNoPeer(t *testing.T) {
	d, clock, _ := newTestDetector()
	clock.now = time.Second
	d.Connected(2, true)
	d.Heartbeat(2)
	clock.now += time.Minute
	if d.Lost(2) {
		t.Error("a peer is lost because of a pause")
	}
	clock.passBy(silenceMax+HeartbeatEvery, HeartbeatEvery, d.Evaluate)
	if !d.Lost(2) {
		t.Errorf("a peer that is silent for %v after a pause is not lost", silenceMax)
	}
}

func TestRemovedPeerIsDown(t *testing.T) {
	d, _, transitions := newTestDetector()
	d.Connected(2, true)
	d.Heartbeat(2)
	d.Forget(2)
	if d.Alive(2) || !slices.Equal(*transitions, []transition{{2, true}, {2, false}}) {
		t.Errorf("alive %v, reported %v", d.Alive(2), *transitions)
	}
}

func TestSuspicionGrowsWithSilence(t *testing.T) {
	mean := float64(HeartbeatEvery)
	if p := phi(time.Second, mean); p >= phiDown {
		t.Errorf("phi of 1 s is %.1f", p)
	}
	if p := phi(2*time.Second, mean); p < phiDown {
		t.Errorf("phi of 2 s is %.1f", p)
	}
}

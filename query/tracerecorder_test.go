package query

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/testclock"
	"cqld/ring"
)

// stepWaiter is a waiter whose Wait runs what happens meanwhile.
type stepWaiter struct {
	meanwhile func()
	signaled  int
}

func (w *stepWaiter) Wait()   { w.meanwhile() }
func (w *stepWaiter) Signal() { w.signaled++ }

func testTraceRecorder(meanwhile func(*testclock.Clock)) (*traceRecorder, *testclock.Clock, *stepWaiter) {
	clock := new(testclock.Clock)
	w := &stepWaiter{meanwhile: func() { meanwhile(clock) }}
	return newTraceRecorder(clock, w, func(id ring.NodeID) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(id)}), 7000)
	}), clock, w
}

func traceText(events []traceEvent) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%v %d %s %v\n", e.At, e.Source, e.Activity, e.Elapsed)
	}
	return b.String()
}

// Events of replicas have times of this node's clock, computed from the arrival of the reply. Close returns them in
// order.
func TestEventsAreOrdered(t *testing.T) {
	r, clock, _ := testTraceRecorder(nil)
	r.AddNode(1, "Sending to", 2)
	reply := r.Asked(2)
	clock.Advance(10 * time.Millisecond)
	r.Add(1, "Received")
	reply([]coordinator.TraceEvent{{Elapsed: time.Millisecond, Activity: "Read"},
		{Elapsed: 4 * time.Millisecond, Activity: "Replied"}})
	want := "0s 1 Sending to /127.0.0.2:7000 0s\n7ms 2 Read 1ms\n10ms 1 Received 10ms\n10ms 2 Replied 4ms\n"
	if got := traceText(r.Close()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Close waits for a node that has not replied, and drops what comes after the limit.
func TestCloseWaitsForReplies(t *testing.T) {
	for _, late := range []bool{false, true} {
		var reply func([]coordinator.TraceEvent)
		answer := func() { reply([]coordinator.TraceEvent{{Activity: "Replied"}}) }
		r, _, w := testTraceRecorder(func(clock *testclock.Clock) {
			if !late {
				answer()
				return
			}
			clock.Advance(traceWaitMax)
		})
		reply = r.Asked(2)
		events := r.Close()
		if late {
			answer()
		}
		if w.signaled != 1 || len(events) == 1 == late || len(r.mu.events) != len(events) {
			t.Errorf("late %v: %d events, then %d; signaled %d times", late, len(events), len(r.mu.events), w.signaled)
		}
	}
}

func TestEventsAreBounded(t *testing.T) {
	r, _, _ := testTraceRecorder(nil)
	for range traceEventsMax + 10 {
		r.Add(1, "again")
	}
	if n := len(r.Close()); n != traceEventsMax {
		t.Errorf("%d events", n)
	}
}

package query

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
)

// traceRecorder collects the events of one statement. It is safe for concurrent use: replicas add events, too. It
// implements coordinator.Trace. A statement has one recorder, from its start to Close.
type traceRecorder struct {
	clock   env.Clock
	address func(ring.NodeID) netip.AddrPort
	// start is a time of the monotonic clock.
	start time.Duration
	// Close waits for it; signaled by the last reply or the time limit
	settled env.Waiter
	mu      struct {
		sync.Mutex
		events  []traceEvent
		pending int // contacted nodes that have not replied
		waiting bool
		closed  bool // Close was called; later events are dropped
	}
}

// traceEvent is an event of a statement. Activity is the text shown to clients.
type traceEvent struct {
	At       time.Duration // since the statement began, by this node's clock
	Source   ring.NodeID
	Activity string
	Elapsed  time.Duration // since the source received its request
}

const (
	// traceEventsMax bounds the events of one statement.
	traceEventsMax = 1000
	// traceWaitMax is how long the trace of a statement waits for events of replicas for which the statement did not
	// wait. It is short, because the client waits, too, and live replicas reply sooner.
	traceWaitMax = 100 * time.Millisecond
)

// newTraceRecorder returns a recorder of a statement that begins now. waiter is for Close only. address returns the
// internode address of a node.
func newTraceRecorder(clock env.Clock, waiter env.Waiter, address func(ring.NodeID) netip.AddrPort) *traceRecorder {
	return &traceRecorder{clock: clock, address: address, start: clock.Monotonic(), settled: waiter}
}

// Elapsed returns the time since the statement began. It is also the duration of the session.
func (t *traceRecorder) Elapsed() time.Duration { return t.clock.Monotonic() - t.start }

// Contact implements coordinator.Trace. It does nothing, because the events show the contacts.
func (t *traceRecorder) Contact(ring.NodeID) {}

// Read implements coordinator.Trace. It does nothing, because the events show reads.
func (t *traceRecorder) Read(coordinator.Reads) {}

// Detailed implements coordinator.Trace.
func (t *traceRecorder) Detailed() bool { return true }

// Add implements coordinator.Trace. The event has the current time. source is this node, unless the coordinator
// reports for another node.
func (t *traceRecorder) Add(source ring.NodeID, activity string) {
	now := t.Elapsed()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addLocked(traceEvent{now, source, activity, now})
}

// addLocked adds an event, unless the recorder is closed or full. t.mu is held.
func (t *traceRecorder) addLocked(e traceEvent) {
	if !t.mu.closed && len(t.mu.events) < traceEventsMax {
		t.mu.events = append(t.mu.events, e)
	}
}

// AddNode implements coordinator.Trace. node is shown by its address.
func (t *traceRecorder) AddNode(source ring.NodeID, activity string, node ring.NodeID) {
	t.Add(source, activity+" /"+t.address(node).String())
}

// Asked implements coordinator.Trace. Clocks of nodes may differ, so it computes the times of a node's events
// backwards from the arrival of its reply. The returned function must be called once, with no events if the node did
// not reply.
func (t *traceRecorder) Asked(node ring.NodeID) func([]coordinator.TraceEvent) {
	t.mu.Lock()
	t.mu.pending++
	t.mu.Unlock()
	return func(events []coordinator.TraceEvent) {
		now := t.Elapsed()
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, e := range events {
			// The last event is the reply. The other events precede it by the difference of their times on that node.
			before := events[len(events)-1].Elapsed - e.Elapsed
			t.addLocked(traceEvent{max(now-before, 0), node, e.Activity, e.Elapsed})
		}
		if t.mu.pending--; t.mu.pending == 0 {
			t.settleLocked()
		}
	}
}

// settleLocked ends the wait in Close. t.mu is held. Only the first call after the wait began signals.
func (t *traceRecorder) settleLocked() {
	if t.mu.waiting {
		t.mu.waiting = false
		t.settled.Signal()
	}
}

// Close waits at most traceWaitMax for nodes that have not replied, and returns the events in order. It must be called
// once; the events belong to the caller.
func (t *traceRecorder) Close() []traceEvent {
	t.mu.Lock()
	// All nodes have replied in the usual case, so there is no wait.
	if t.mu.pending > 0 {
		t.mu.waiting = true
		// Either the last reply or the timer signals the waiter, never both (settleLocked).
		timer := t.clock.After(traceWaitMax, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.settleLocked()
		})
		t.mu.Unlock()
		t.settled.Wait()
		timer.Stop()
		t.mu.Lock()
	}
	defer t.mu.Unlock()
	t.mu.closed = true
	slices.SortStableFunc(t.mu.events, func(a, b traceEvent) int { return cmp.Compare(a.At, b.At) })
	return t.mu.events
}

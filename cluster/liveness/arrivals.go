package liveness

import (
	"slices"
	"sync/atomic"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// Arrivals knows the nodes that joined while this node was running and for which requests may wait. Expect is called by
// the loop that owns the metadata; the other methods are safe for concurrent use.
type Arrivals struct {
	clock   env.Clock
	post    func(func()) bool // queues an event for the loop
	alive   func(ring.NodeID) bool
	waiting atomic.Pointer[arrivals]
}

// NewArrivals returns arrivals of no nodes.
func NewArrivals(clock env.Clock, post func(func()) bool, alive func(ring.NodeID) bool) *Arrivals {
	return &Arrivals{clock: clock, post: post, alive: alive}
}

// arrivals is one state of Arrivals. Values are immutable.
type arrivals struct {
	nodes []ring.NodeID
	until time.Duration // monotonic: afterwards, a silent node counts as dead, like any other member
}

// arrivalPatience is how long a new member may take until its first heartbeat: as long as any member may be silent.
const arrivalPatience = 2 * time.Second

// arrivalSettle is how long a node counts as arriving after its first heartbeat. A request that was planned just
// before the heartbeat checks afterwards whether a node is arriving, and must get the result as of its planning.
const arrivalSettle = 100 * time.Millisecond

// Expect records the nodes that join by the change from one topology to the next. It runs before the next topology is
// published, so that no request is planned with a node that is not recorded.
func (a *Arrivals) Expect(old, now *ring.Topology, self ring.NodeID) {
	var nodes []ring.NodeID
	for _, n := range now.Nodes() {
		// Members that this node learns of when it starts are not listed if they have joined already.
		if n.State == ring.Joining && old.Node(n.ID) == nil && n.ID != self {
			nodes = append(nodes, n.ID)
		}
	}
	if len(nodes) == 0 {
		return
	}
	until := a.clock.Monotonic() + arrivalPatience
	// It replaces the nodes of an earlier change. Joins in one data center run one after the other.
	a.waiting.Store(&arrivals{nodes, until})
	a.clock.After(arrivalPatience, func() { a.post(a.end) })
	for _, id := range nodes {
		if a.alive(id) { // it was heard before this node learned that it is a member
			a.Arrived(id)
		}
	}
}

// end removes the arrivals whose time has passed.
func (a *Arrivals) end() {
	if w := a.waiting.Load(); w != nil && a.clock.Monotonic() >= w.until {
		a.waiting.Store(nil)
	}
}

// Arrived ends the arrival of a node after its first heartbeat and arrivalSettle.
func (a *Arrivals) Arrived(id ring.NodeID) {
	if w := a.waiting.Load(); w == nil || !slices.Contains(w.nodes, id) {
		return
	}
	a.clock.After(arrivalSettle, func() {
		a.post(func() {
			w := a.waiting.Load()
			// A node that is silent again stays listed until the patience ends.
			if w == nil || !a.alive(id) {
				return
			}
			rest := slices.DeleteFunc(slices.Clone(w.nodes), func(n ring.NodeID) bool { return n == id })
			a.waiting.Store(&arrivals{rest, w.until})
		})
	})
}

// Awaiting reports whether one of the members of t joined less than arrivalPatience ago and its first heartbeat has not
// been received, or was received within arrivalSettle.
func (a *Arrivals) Awaiting(t *ring.Topology) bool {
	// Loaded again: Expect or end may have run since.
	w := a.waiting.Load()
	return w != nil && slices.ContainsFunc(w.nodes, func(id ring.NodeID) bool { return t.Node(id) != nil })
}

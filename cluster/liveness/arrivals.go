package liveness

import (
	"slices"
	"sync/atomic"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// Arrivals tracks nodes that joined while this node was running, and for whose first heartbeat requests may wait. The
// loop that owns the metadata calls Expect; the other methods are safe for concurrent use.
type Arrivals struct {
	clock   env.Clock
	post    func(func()) bool // queues an event for the loop
	alive   func(ring.NodeID) bool
	waiting atomic.Pointer[arrivals]
}

// NewArrivals returns Arrivals without nodes.
func NewArrivals(clock env.Clock, post func(func()) bool, alive func(ring.NodeID) bool) *Arrivals {
	return &Arrivals{clock: clock, post: post, alive: alive}
}

// arrivals is a state of Arrivals. Values are immutable.
type arrivals struct {
	nodes []ring.NodeID
	until time.Duration // monotonic; afterwards a silent node counts as dead, like any other member
}

// arrivalPatience is how long a new member may take until its first heartbeat: as long as any member may be silent.
const arrivalPatience = 2 * time.Second

// arrivalSettle is how long a node counts as arriving after its first heartbeat. A request that was planned just before
// the heartbeat checks for arriving nodes afterwards, and must get the same result as at its planning.
const arrivalSettle = 100 * time.Millisecond

// Expect records the nodes that start to join between two topologies. It runs before the next topology is published, so
// no request is planned with an unrecorded node.
func (a *Arrivals) Expect(old, now *ring.Topology, self ring.NodeID) {
	var nodes []ring.NodeID
	for _, n := range now.Nodes() {
		// Nodes that had joined before this node started are not recorded.
		if n.State == ring.Joining && old.Node(n.ID) == nil && n.ID != self {
			nodes = append(nodes, n.ID)
		}
	}
	if len(nodes) == 0 {
		return
	}
	until := a.clock.Monotonic() + arrivalPatience
	// Replaces the nodes of an earlier change; joins in one data center do not overlap.
	a.waiting.Store(&arrivals{nodes, until})
	a.clock.After(arrivalPatience, func() { a.post(a.end) })
	for _, id := range nodes {
		if a.alive(id) { // heard before this node learned of the membership
			a.Arrived(id)
		}
	}
}

// end removes the recorded nodes when their time is over.
func (a *Arrivals) end() {
	if w := a.waiting.Load(); w != nil && a.clock.Monotonic() >= w.until {
		a.waiting.Store(nil)
	}
}

// Arrived removes a node arrivalSettle after its first heartbeat.
func (a *Arrivals) Arrived(id ring.NodeID) {
	if w := a.waiting.Load(); w == nil || !slices.Contains(w.nodes, id) {
		return
	}
	a.clock.After(arrivalSettle, func() {
		a.post(func() {
			w := a.waiting.Load()
			// A node that is silent again stays recorded until arrivalPatience is over.
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
	// Loaded again, because Expect or end may have run in the meantime.
	w := a.waiting.Load()
	return w != nil && slices.ContainsFunc(w.nodes, func(id ring.NodeID) bool { return t.Node(id) != nil })
}

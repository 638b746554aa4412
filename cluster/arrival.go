package cluster

import (
	"slices"
	"time"

	"cqld/ring"
)

// arrivals are the nodes that were let in while this node was running and that requests may wait for. Values are immutable.
type arrivals struct {
	nodes []ring.NodeID
	until time.Duration // monotonic: a node that is silent after this counts as dead, as any other member does
}

// arrivalPatience is how long a node that was let in may take until its first heartbeat: as long as a member may be silent.
const arrivalPatience = 2 * time.Second

// arrivalSettle is how long a node counts as arriving after its first heartbeat. A request that was planned just before
// the heartbeat asks afterwards whether a node arrives, and must get the answer of the moment at which it was planned.
const arrivalSettle = 100 * time.Millisecond

// expect records the nodes that join by the change from one topology to the next. It runs before the next topology is
// published, so that no request is planned with a node that is not recorded.
func (c *Cluster) expect(old, now *ring.Topology) {
	var nodes []ring.NodeID
	for _, n := range now.Nodes() {
		if n.State == ring.Joining && old.Node(n.ID) == nil && n.ID != c.Self() {
			nodes = append(nodes, n.ID)
		}
	}
	if len(nodes) == 0 {
		return
	}
	until := c.opts.Clock.Monotonic() + arrivalPatience
	c.arrivals.Store(&arrivals{nodes, until})
	c.opts.Clock.After(arrivalPatience, func() { c.post(c.endArrivals) })
	for _, id := range nodes {
		if c.Alive(id) { // it was heard before this node learned that it is a member
			c.arrived(id)
		}
	}
}

// endArrivals forgets the arrivals whose time is over.
func (c *Cluster) endArrivals() {
	if a := c.arrivals.Load(); a != nil && c.opts.Clock.Monotonic() >= a.until {
		c.arrivals.Store(nil)
	}
}

// arrived ends the arrival of a node that has been heard, after arrivalSettle. It may be called by any goroutine.
func (c *Cluster) arrived(id ring.NodeID) {
	if a := c.arrivals.Load(); a == nil || !slices.Contains(a.nodes, id) {
		return
	}
	c.opts.Clock.After(arrivalSettle, func() {
		c.post(func() {
			a := c.arrivals.Load()
			if a == nil || !c.Alive(id) {
				return
			}
			rest := slices.DeleteFunc(slices.Clone(a.nodes), func(n ring.NodeID) bool { return n == id })
			c.arrivals.Store(&arrivals{rest, a.until})
		})
	})
}

// Arriving reports whether a node was let in less than two seconds ago from which this node has had no heartbeat yet, or
// had the first one within the last 100 ms. It may be called by any goroutine.
func (c *Cluster) Arriving() bool {
	a := c.arrivals.Load()
	return a != nil && slices.ContainsFunc(a.nodes, func(id ring.NodeID) bool { return c.Metadata().Topology.Node(id) != nil })
}

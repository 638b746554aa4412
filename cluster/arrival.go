package cluster

import (
	"slices"
	"time"

	"cqld/ring"
)

// arrivals contains the nodes that joined while this node was running and for which requests may wait. Values are
// immutable.
type arrivals struct {
	nodes []ring.NodeID
	until time.Duration // monotonic: afterwards, a silent node counts as dead, like any other member
}

// arrivalPatience is how long a new member may take until its first heartbeat: as long as any member may be silent.
const arrivalPatience = 2 * time.Second

// arrivalSettle is how long a node counts as arriving after its first heartbeat. A request that was planned just
// before the heartbeat checks afterwards whether a node is arriving, and must get the result as of its planning.
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

// endArrivals removes the arrivals whose time has passed.
func (c *Cluster) endArrivals() {
	if a := c.arrivals.Load(); a != nil && c.opts.Clock.Monotonic() >= a.until {
		c.arrivals.Store(nil)
	}
}

// arrived ends the arrival of a node after its first heartbeat and arrivalSettle. It is safe for concurrent use.
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

// AwaitingFirstHeartbeat reports whether a node joined less than two seconds ago whose first heartbeat this node has
// not received, or received within the last 100 ms. It is safe for concurrent use.
func (c *Cluster) AwaitingFirstHeartbeat() bool {
	a := c.arrivals.Load()
	return a != nil && slices.ContainsFunc(a.nodes, func(id ring.NodeID) bool {
		return c.Metadata().Topology.Node(id) != nil
	})
}

package cluster

import (
	"slices"
	"time"

	"cqld/ring"
)

// arrivals are nodes that were let in while this node looked on. Values are immutable.
type arrivals struct {
	nodes []ring.NodeID
	until time.Duration // monotonic: who is silent then is a dead member as others are
}

// arrivalPatience is how long a node that was let in may take to be heard: as long as one that was heard may be silent.
const arrivalPatience = 2 * time.Second

// expect notes who joins by the change from one topology to the next.
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
	c.opts.Clock.After(arrivalPatience, func() { c.post(c.expectNobody) })
}

// expectNobody forgets the arrivals whose time is over.
func (c *Cluster) expectNobody() {
	if a := c.arrivals.Load(); a != nil && c.opts.Clock.Monotonic() >= a.until {
		c.arrivals.Store(nil)
	}
}

// Arriving says whether a node was let in less than two seconds ago that this one has not heard yet. It may be called by
// any goroutine.
func (c *Cluster) Arriving() bool {
	a := c.arrivals.Load()
	return a != nil && slices.ContainsFunc(a.nodes, func(id ring.NodeID) bool { return !c.Alive(id) && c.Metadata().Topology.Node(id) != nil })
}

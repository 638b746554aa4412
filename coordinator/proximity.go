package coordinator

import (
	"math"

	"cqld/coordinator/latency"
	"cqld/ring"
)

// SortByProximity sorts targets, of the topology t: this node, self, comes first, then the nodes of its data center,
// then the others, each by the latency of their answers.
func SortByProximity[T any](c *Coordinator, t *ring.Topology, self ring.NodeID, targets []T,
	nodeOf func(T) ring.NodeID) {
	now := c.clock.Monotonic()
	rank := func(x T) int64 {
		node := nodeOf(x)
		if node == self {
			// This node sorts before every other node; those may have a rank of zero.
			return -1
		}
		r := int64(c.peers.Of(node, now) / latency.Step)
		if n := t.Node(node); n == nil || n.Datacenter != c.localDC {
			// A remote node sorts after every node of the local data center, however slow.
			r += math.MaxInt32
		}
		return r
	}
	for i := 1; i < len(targets); i++ { // insertion sort: few elements, mostly in order
		for k := i; k > 0 && rank(targets[k]) < rank(targets[k-1]); k-- {
			targets[k], targets[k-1] = targets[k-1], targets[k]
		}
	}
}

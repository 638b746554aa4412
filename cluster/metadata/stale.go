package metadata

import (
	"slices"

	"cqld/ring"
)

// StaleQuorum returns nodes that could still form a quorum of readers of an earlier topology, or nil: a quorum of the
// previous replicas of a range, in the whole ring or in a data center. Such a quorum matters only if it includes a
// replica that loses the range, because otherwise it is also a quorum of the next replicas. Nodes that an operation
// removes or replaces do not count, and system keyspaces never block a topology change. behind reports whether a node
// may not have applied the current topology.
func (m *Metadata) StaleQuorum(behind func(ring.NodeID) bool) []ring.NodeID {
	// Only nodes that are behind can read from the previous replicas alone. The others have applied the switch, and
	// contact both sides.
	for _, r := range UserReplications(m.Schema) {
		for _, x := range m.Topology.Placement(r).Ranges(ring.FullRange()) {
			before := slices.DeleteFunc(slices.Clone(x.Replicas.Before),
				func(id ring.NodeID) bool { return !behind(id) || m.Topology.Gone(id) })
			if staleQuorum(m.Topology, r, before, x.Replicas.Natural) {
				return before
			}
		}
	}
	return nil
}

// staleQuorum reports whether nodes, which are previous replicas of a range, contain a quorum with a member that is not
// among the next replicas: a quorum of the ring, or of the data center of this member.
func staleQuorum(t *ring.Topology, r ring.Replication, nodes, next []ring.NodeID) bool {
	// local counts the nodes by data center; losers contains the data centers in which one of them loses the range.
	local, losers := map[string]int{}, map[string]bool{}
	for _, id := range nodes {
		if n := t.Node(id); n != nil {
			local[n.Datacenter]++
			if !slices.Contains(next, id) {
				losers[n.Datacenter] = true
			}
		}
	}
	// QUORUM counts the replicas of all data centers together, so one loser anywhere makes such a quorum stale.
	if len(losers) > 0 && len(nodes) >= ring.QuorumOf(r.Total()) {
		return true
	}
	// LOCAL_QUORUM and EACH_QUORUM count each data center separately. SimpleStrategy has no data centers, so nothing is
	// left to check.
	return slices.ContainsFunc(r.Datacenters, func(f ring.DatacenterFactor) bool {
		return losers[f.Datacenter] && local[f.Datacenter] >= ring.QuorumOf(f.Factor)
	})
}

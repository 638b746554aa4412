package admin

import (
	"slices"
	"strconv"
	"strings"

	"cqld/cluster"
	"cqld/node/control"
	"cqld/ring"
)

// members describes the members of the cluster to operators. Every method reads the liveness at its time, so two
// members of one list may be from different moments.
type members struct{ cluster *cluster.Cluster }

// list returns all nodes, without their ownership. Load is set for the nodes in of. of contains the nodes that have
// answered.
func (v members) list(t *ring.Topology, of map[ring.NodeID]facts) []control.Member {
	out := make([]control.Member, 0, len(t.Nodes()))
	for _, m := range t.Nodes() {
		// The load of a node that has not answered stays nil.
		member := v.one(m)
		if f, ok := of[m.ID]; ok {
			member.Load = &f.Load
			member.ClockAhead, member.ClockRefuses = f.ClockAhead, f.ClockRefuses
		}
		out = append(out, member)
	}
	return out
}

// one describes a member from this node's view. Its load and its clock are not known here.
func (v members) one(m *ring.Node) control.Member {
	out := control.Member{ID: uint64(m.ID), HostID: m.Host.String(), Address: m.Internode.String(),
		Native: m.Native.String(),
		// A node is up if this node considers it alive.
		Datacenter: m.Datacenter, Rack: m.Rack, Up: v.cluster.Alive(m.ID), State: stateWord(m.State),
		Tokens: len(m.Tokens)}
	if v := v.cluster.Voters(); v != nil {
		out.Voter, out.Leader = slices.Contains(v.IDs, m.ID), v.Leader == m.ID
	}
	return out
}

// stateWord returns a state as nodetool writes it: Normal, Joining, Leaving or Moving.
func stateWord(s ring.NodeState) string {
	word := s.String()
	return word[:1] + strings.ToLower(word[1:])
}

// named returns the members with these ids. The order of ids is kept; an id without a member is left out.
func (v members) named(t *ring.Topology, ids []ring.NodeID) (out []control.Member) {
	for _, id := range ids {
		if m := t.Node(id); m != nil {
			out = append(out, v.one(m))
		}
	}
	return out
}

// find finds a node by its host id, its number or its address, with or without the port. An operator may write any of
// the three. It returns nil if there is no such member. Several nodes of one machine share an address and differ in the
// port; without the port, the first of them is found.
func (v members) find(name string) *ring.Node {
	for _, m := range v.cluster.Metadata().Topology.Nodes() {
		// The name matches the whole text, so a part of an address is not enough.
		switch name {
		case m.Host.String(), strconv.FormatUint(uint64(m.ID), 10), m.Internode.String(), m.Internode.Addr().String():
			return m
		}
	}
	return nil
}

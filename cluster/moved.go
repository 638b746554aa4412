package cluster

import (
	"net/netip"

	"cqld/ring"
)

// A member may return with another address. A majority then registers the address. But after a power failure, or in an
// orchestrator that assigns addresses, a majority may have returned with others, and its members do not reach each
// other at the registered ones: no majority could ever register an address. Therefore members use the address from
// which a member requests its membership, and the one at which a member answers, until the metadata have it.

// noteMoved records that the node with an id is at addr. A node that is alive at its registered address has not moved.
// The loop calls it.
func (c *Cluster) noteMoved(id ring.NodeID, addr netip.AddrPort) {
	m := c.Metadata()
	n := m.Topology.Node(id)
	if n == nil || c.driver == nil || id == c.Self() || !usable(addr) {
		return
	}
	was, known := c.moved[id]
	switch {
	case n.Internode == addr && !known, was == addr, n.Internode != addr && c.Alive(id):
		return
	case n.Internode == addr:
		delete(c.moved, id)
	default:
		c.opts.Logger.Info("node has moved", "node", n.Internode, "to", addr, "host_id", n.Host)
		c.moved[id] = addr
	}
	c.opts.Network.SetPeers(c.peersOf(m))
}

// addMoved replaces the registered addresses of nodes that have moved. An address of such a node no longer belongs to
// another node.
func (c *Cluster) addMoved(peers map[ring.NodeID]netip.AddrPort) {
	for moved, addr := range c.moved {
		for id, other := range peers {
			if _, also := c.moved[id]; id != moved && other == addr && !also {
				delete(peers, id)
			}
		}
		if _, ok := peers[moved]; ok {
			peers[moved] = addr
		}
	}
}

// forgetMoved removes the nodes whose addresses the next metadata change or contain, and those that have left.
func (c *Cluster) forgetMoved(old, next *ring.Topology) {
	for id, addr := range c.moved {
		before, after := old.Node(id), next.Node(id)
		if after == nil || after.Internode == addr || before != nil && before.Internode != after.Internode {
			delete(c.moved, id)
		}
	}
}

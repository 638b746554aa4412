package cluster

import (
	"maps"
	"net/netip"
	"slices"

	"cqld/cluster/metadata"
	"cqld/ring"
)

// A member that was down or disconnected while the ring changed does not know the newer members, or the new address of
// a member. One of them may lead and send Raft messages. This node does not trust the sender's claims. It asks the
// members that it knows, and its seeds, and trusts their replies.
//
// A member may return with another address. A majority then registers the address. But after a power failure, or in an
// orchestrator that assigns addresses, a majority may have returned with others, and its members do not reach each
// other at the registered ones: no majority could ever register an address. Members therefore use the address from
// which a member sends its join request, and the address at which a member answers, until the metadata contain it.

// newerMax bounds the members in a reply: no ring is larger.
const newerMax = 4096

// addresses tracks the addresses of members: those in the metadata, and newer ones that the metadata do not contain
// yet. Only the loop uses it.
type addresses struct {
	opts   *Options
	view   *view
	driver *driver
	// admission contains the members at this node's admission. With them the node receives the log while its own log is
	// empty.
	admission map[ring.NodeID]netip.AddrPort
	newer     newerMembers                   // reported by other members
	moved     map[ring.NodeID]netip.AddrPort // addresses that members have and the metadata do not contain yet
}

// newerMembers contains members, and addresses of members, that other members have reported and that this node's
// metadata do not contain yet.
type newerMembers struct {
	epoch uint64 // epoch of the metadata that they are from
	addrs map[ring.NodeID]netip.AddrPort
}

// connect sets the network's peers to the current addresses.
func (a *addresses) connect() { a.opts.Network.SetPeers(a.peers()) }

// peers returns the addresses of the members. While this node replays the log up to its own admission, it also keeps
// the members at the admission, so that their streams are not closed and reopened.
func (a *addresses) peers() map[ring.NodeID]netip.AddrPort {
	m := a.view.metadata()
	peers := m.Peers()
	if !a.view.admitted() {
		for id, addr := range a.admission {
			if _, ok := peers[id]; !ok {
				// The log before this node's admission may not contain these members yet.
				peers[id] = addr
			}
		}
	}
	// Later steps override earlier ones: an address that a member itself has used is newer than a reported one.
	a.addFormer(m, peers)
	a.addNewer(m, peers)
	a.addMoved(peers)
	return peers
}

// addFormer adds the former members that Raft must still notify of their removal, unless another node has their
// address by now.
func (a *addresses) addFormer(m *metadata.Metadata, peers map[ring.NodeID]netip.AddrPort) {
	if !a.driver.started() || a.driver.conf == nil {
		return
	}
	// Two ids with one address would make the network send Raft messages to the wrong node.
	taken := slices.Collect(maps.Values(peers))
	for _, r := range m.Removed {
		conf, id := a.driver.conf, uint64(r.Node)
		// Once Raft's membership no longer contains it, nothing is sent to it.
		in := slices.Contains(conf.GetVoters(), id) || slices.Contains(conf.GetLearners(), id) ||
			slices.Contains(conf.GetVotersOutgoing(), id)
		if in && r.Node != a.view.self() && !slices.Contains(taken, r.Addr) {
			peers[r.Node] = r.Addr
		}
	}
}

// addNewer adds newer members and addresses that other members reported. If the address of a newer member was
// registered for another node, that node loses it.
func (a *addresses) addNewer(m *metadata.Metadata, peers map[ring.NodeID]netip.AddrPort) {
	owner := make(map[netip.AddrPort]ring.NodeID, len(a.newer.addrs))
	for id, addr := range a.newer.addrs {
		owner[addr] = id
	}
	for id, addr := range peers {
		if now, taken := owner[addr]; taken && now != id {
			// The node to which the address is registered has left or moved.
			delete(peers, id)
		}
	}
	for id, addr := range a.newer.addrs {
		// Reports from others do not override this node's knowledge of a removal.
		if id != a.view.self() && addr.IsValid() && m.RemovedAt(id) == 0 {
			peers[id] = addr
		}
	}
}

// addMoved replaces the registered addresses of nodes that have moved. If the new address was registered for another
// node, that node loses it.
func (a *addresses) addMoved(peers map[ring.NodeID]netip.AddrPort) {
	for moved, addr := range a.moved {
		for id, other := range peers {
			// Both have moved, perhaps by exchanging addresses: each entry is correct.
			if _, also := a.moved[id]; id != moved && other == addr && !also {
				delete(peers, id)
			}
		}
		if _, ok := peers[moved]; ok {
			peers[moved] = addr
		}
	}
}

// noteMembers handles a reply to a join request, which lists the members that its sender knows.
func (a *addresses) noteMembers(r joinReply) {
	// Older replies contain less than the metadata of this node.
	if !a.driver.started() || r.Epoch <= a.view.metadata().Epoch || r.Epoch <= a.newer.epoch {
		return
	}
	a.newer = newerMembers{epoch: r.Epoch, addrs: r.Peers}
	a.connect()
}

// noteMoved records that the node with an id is at addr. A node that is alive at its registered address has not moved.
func (a *addresses) noteMoved(id ring.NodeID, addr netip.AddrPort) {
	n := a.view.metadata().Topology.Node(id)
	// An unusable address must not replace a registered one at which the node may still answer.
	if n == nil || !a.driver.started() || id == a.view.self() || !usable(addr) {
		return
	}
	was, known := a.moved[id]
	switch {
	case n.Internode == addr && !known, was == addr, n.Internode != addr && a.view.alive(id):
		return
	case n.Internode == addr:
		// The node is at its registered address again.
		delete(a.moved, id)
	default:
		a.opts.Logger.Info("node has moved", "node", n.Internode, "to", addr, "host_id", n.Host)
		a.moved[id] = addr
	}
	a.connect()
}

// follow handles a change of the metadata, which may now contain what others reported.
func (a *addresses) follow(old, now *metadata.Metadata) {
	if now.Epoch >= a.newer.epoch {
		// The metadata have caught up with the reports.
		a.newer = newerMembers{}
	}
	// Most changes concern only the schema, so the peers stay.
	if old.Topology == now.Topology {
		return
	}
	// A newly registered address overrides the observed one.
	for id, addr := range a.moved {
		before, after := old.Topology.Node(id), now.Topology.Node(id)
		if after == nil || after.Internode == addr || before != nil && before.Internode != after.Internode {
			delete(a.moved, id)
		}
	}
	a.connect()
}

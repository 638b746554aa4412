package cluster

import (
	"net/netip"
	"slices"
	"time"

	"cqld/messaging"
	"cqld/ring"
)

// A member that was down or disconnected while the ring changed does not know the newer members, or the new address
// of a member. One of them may lead and send Raft messages. This node does not trust what the sender claims: it asks
// members that it knows, and its seeds, and trusts their replies.

// newerMembers contains members, and addresses of members, that other members have reported and that this node's
// metadata do not contain yet.
type newerMembers struct {
	epoch uint64 // epoch of the metadata that they are from
	addrs map[ring.NodeID]netip.AddrPort
}

// newerMax bounds newerMembers: no ring is larger.
const newerMax = 4096

// inquireEvery is the minimum interval between requests about unknown peers, and inquiries the number of members asked
// each time.
const (
	inquireEvery = 500 * time.Millisecond
	inquiries    = 3
)

// noteUnknownPeer is called when a node that is not a known member tries to send a Raft message. It is safe for
// concurrent use.
func (c *Cluster) noteUnknownPeer(s messaging.Sender) {
	now := int64(c.opts.Clock.Monotonic())
	last := c.inquired.Load()
	if s.Node == 0 || s.Node == c.Self() || last != 0 && now-last < int64(inquireEvery) ||
		!c.inquired.CompareAndSwap(last, max(now, 1)) {
		return
	}
	c.post(c.inquire)
}

// inquire asks some of the known members, and of the seeds, for the list of members.
func (c *Cluster) inquire() {
	if c.driver == nil {
		return
	}
	peers := c.peersOf(c.Metadata())
	addrs := slices.Clone(c.seeds)
	for _, id := range sortedIDs(peers) {
		addrs = append(addrs, peers[id])
	}
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	addrs = slices.DeleteFunc(slices.Compact(addrs), func(a netip.AddrPort) bool { return a == c.opts.Self.Internode })
	for i := range min(inquiries, len(addrs)) {
		c.requestMembership(addrs[(c.inquiry+i)%len(addrs)], c.opts.Self, func(error) {})
	}
	c.inquiry += inquiries // continue with the following ones
}

// noteMembers handles a member's reply to a join request: it lists the members as that node knows them.
func (c *Cluster) noteMembers(r joinReply) {
	m := c.Metadata()
	if c.driver == nil || r.Epoch <= m.Epoch || r.Epoch <= c.newer.epoch {
		return
	}
	c.newer = newerMembers{epoch: r.Epoch, addrs: r.Peers}
	c.opts.Network.SetPeers(c.peersOf(m))
}

// addNewer adds the newer members and the newer addresses. An address of a newer member no longer belongs to another
// node.
func (c *Cluster) addNewer(m *Metadata, peers map[ring.NodeID]netip.AddrPort) {
	owner := make(map[netip.AddrPort]ring.NodeID, len(c.newer.addrs))
	for id, addr := range c.newer.addrs {
		owner[addr] = id
	}
	for id, addr := range peers {
		if now, taken := owner[addr]; taken && now != id {
			delete(peers, id)
		}
	}
	for id, addr := range c.newer.addrs {
		if id != c.Self() && addr.IsValid() && m.removedAt(id) == 0 {
			peers[id] = addr
		}
	}
}

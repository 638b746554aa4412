package cluster

import (
	"net/netip"
	"slices"
	"time"

	"cqld/messaging"
	"cqld/ring"
)

// A member that was down, or cut off, while the ring changed does not know the newer members, nor the new address of a
// member that moved. One of them may lead, and send it Raft messages. Who may send them is not decided by what they claim:
// the node asks members that it knows, and its seeds, and believes their answers.

// newerMembers are members, or addresses of members, that other members have told this node of and that its own metadata do
// not have yet.
type newerMembers struct {
	epoch uint64 // of the metadata that they are from
	addrs map[ring.NodeID]netip.AddrPort
}

// newerMax bounds newerMembers: no ring is larger.
const newerMax = 4096

// inquireEvery is how often, at most, members are asked about strangers, and inquiries how many of them at a time.
const (
	inquireEvery = 500 * time.Millisecond
	inquiries    = 3
)

// noteStranger is called when a node that is not known as a member tries to send a Raft message. It may be called by any
// goroutine.
func (c *Cluster) noteStranger(s messaging.Sender) {
	now := int64(c.opts.Clock.Monotonic())
	last := c.inquired.Load()
	if s.Node == 0 || s.Node == c.Self() || last != 0 && now-last < int64(inquireEvery) || !c.inquired.CompareAndSwap(last, max(now, 1)) {
		return
	}
	c.post(c.inquire)
}

// inquire asks some of the members that this node knows, and of the seeds, who the members are.
func (c *Cluster) inquire() {
	if c.driver == nil {
		return
	}
	peers := c.peersOf(c.Metadata())
	addrs := slices.Clone(c.opts.Seeds)
	for _, id := range sortedIDs(peers) {
		addrs = append(addrs, peers[id])
	}
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	addrs = slices.DeleteFunc(slices.Compact(addrs), func(a netip.AddrPort) bool { return a == c.opts.Self.Internode })
	for i := range min(inquiries, len(addrs)) {
		c.askMembership(addrs[(c.inquiry+i)%len(addrs)], c.opts.Self, func(error) {})
	}
	c.inquiry += inquiries // the next ones next time
}

// noteMembers takes a member's answer to a request to join: it has the members as that one knows them.
func (c *Cluster) noteMembers(r joinReply) {
	m := c.Metadata()
	if c.driver == nil || r.Epoch <= m.Epoch || r.Epoch <= c.newer.epoch {
		return
	}
	c.newer = newerMembers{epoch: r.Epoch, addrs: r.Peers}
	c.opts.Network.SetPeers(c.peersOf(m))
}

// addNewer adds the newer members, and sets the newer addresses. An address that belongs to a newer member is not another
// node's any more.
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

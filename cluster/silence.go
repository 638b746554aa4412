package cluster

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"cqld/messaging"
	"cqld/ring"
)

// silentTicks is how long a member receives nothing of the log before it asks whether it is still a member. Raft
// notifies a departing member, but not forever: one that was paused or disconnected at that time never learns of it.
// It is many times the election timeout.
const silentTicks = uint64(5 * time.Second / tickEvery)

// breakSilence asks the other members about this node's membership after a long silence. If this node is no longer a
// member, that is fatal; after a restart it is refused. The loop calls it.
func (c *Cluster) breakSilence() {
	if c.driver == nil || c.joining != nil || c.ticks-c.heard < silentTicks {
		return
	}
	c.heard = c.ticks
	m := c.Metadata()
	if m.Topology.Node(c.Self()) == nil {
		return // this node knows that it has left
	}
	peers := m.peers()
	delete(peers, c.Self())
	var addrs []netip.AddrPort
	for _, id := range sortedIDs(peers) {
		addrs = append(addrs, peers[id])
	}
	c.confirmMembership(addrs)
	c.askSeeds()
}

// askSeeds asks the seeds about this node's membership if their addresses are looked up: those of all members may have
// changed.
func (c *Cluster) askSeeds() {
	if c.opts.LookUpSeeds == nil {
		return
	}
	c.lookUpSeeds(func(s SeedAddresses) {
		c.confirmMembership(slices.DeleteFunc(slices.Clone(s.Addrs),
			func(a netip.AddrPort) bool { return a == c.opts.Self.Internode }))
	})
}

// confirmMembership asks the nodes at addrs whether this node is still a member. That it is not is fatal.
func (c *Cluster) confirmMembership(addrs []netip.AddrPort) {
	for _, a := range addrs {
		c.requestMembership(a, c.opts.Self, func(err error) {
			var refused *Refused
			if errors.As(err, &refused) {
				c.opts.Fatal(refused)
			}
		})
	}
}

// requestMembership asks the node at an address whether the node described by spec is, or may be, a member. The loop
// calls then, with a Refused if it is not.
func (c *Cluster) requestMembership(addr netip.AddrPort, spec NodeSpec, then func(error)) {
	spec.Replace = "" // its first start is complete, and the replaced node may be gone
	c.ask(addr, spec, func(r joinReply, err error) {
		c.noteMoved(r.From, addr)
		if err == nil {
			c.noteMembers(r)
		}
		var remote *messaging.RemoteError
		if errors.As(err, &remote) && remote.Code == refusedCode {
			err = &Refused{Reason: remote.Message}
		}
		then(err)
	})
}

func sortedIDs(peers map[ring.NodeID]netip.AddrPort) []ring.NodeID {
	ids := make([]ring.NodeID, 0, len(peers))
	for id := range peers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

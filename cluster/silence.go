package cluster

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"cqld/messaging"
	"cqld/ring"
)

// silentTicks is how long a member hears nothing of the log before it asks whether it still is one. Raft tells a
// member that goes that it is gone, but not for ever: one that was paused or cut off meanwhile never hears of it.
// It is many elections long.
const silentTicks = uint64(5 * time.Second / tickEvery)

// breakSilence asks the other members when none has said anything of the log for long. To whoever is none any more
// that is fatal; when it starts again it is refused. It is called by the loop.
func (c *Cluster) breakSilence() {
	if c.driver == nil || c.joining != nil || c.ticks-c.heard < silentTicks {
		return
	}
	c.heard = c.ticks
	m := c.Metadata()
	if m.Topology.Node(c.Self()) == nil {
		return // it knows
	}
	peers := m.peers()
	delete(peers, c.Self())
	for _, id := range sortedIDs(peers) {
		c.askMembership(peers[id], c.opts.Self, func(err error) {
			var refused *Refused
			if errors.As(err, &refused) {
				c.opts.Fatal(refused)
			}
		})
	}
}

// askMembership asks the node at an address whether the node that spec tells of is a member, or may be one; then
// is called by the loop, with a Refused when it is not.
func (c *Cluster) askMembership(addr netip.AddrPort, spec NodeSpec, then func(error)) {
	spec.Replace = "" // its first start is over, and the node that it replaced may be gone
	c.ask(addr, spec, func(r joinReply, err error) {
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

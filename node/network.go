package node

import (
	"context"
	"net"
	"net/netip"
	"time"

	"cqld/messaging"
	"cqld/node/socket"
	"cqld/ring"
)

// listenForClients listens for clients at an address.
func (n *Node) listenForClients(at netip.AddrPort) (net.Listener, error) {
	if n.opts.Network != nil {
		return n.opts.Network.Listen(at)
	}
	return socket.Listen(at.String())
}

// probeTimeout bounds one attempt to connect to the native port of another node.
const probeTimeout = time.Second

// acceptsClients reports whether a connection to the native port of a member succeeds.
func (n *Node) acceptsClients(m *ring.Node) bool {
	var network messaging.Network = messaging.TCP{}
	if n.opts.Network != nil {
		network = n.opts.Network
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	c, err := network.Dial(ctx, netip.Addr{}, m.Native)
	if err != nil {
		return false
	}
	_ = c.Close() // nothing was written
	return true
}

// Up reports whether this node considers the member with the internode address alive.
func (n *Node) Up(internode netip.AddrPort) bool {
	for _, m := range n.cluster.Metadata().Topology.Nodes() {
		if m.Internode == internode {
			return n.cluster.Alive(m.ID)
		}
	}
	return false
}

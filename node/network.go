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

// listenForClients listens for clients at an address. A network that is nil is the machine's. Tests have a network
// within the process.
func listenForClients(network messaging.Network, at netip.AddrPort) (net.Listener, error) {
	if network != nil {
		return network.Listen(at)
	}
	return socket.Listen(at.String())
}

// probeTimeout bounds one attempt to connect to the native port of another node.
const probeTimeout = time.Second

// acceptsClients reports whether a connection to the native port of a member succeeds. It is the last check before
// clients are notified of a node that came up. It blocks for up to probeTimeout, so it must not be called by the
// cluster's loop. A port that accepts connections need not answer requests: the node may still refuse them because of
// its clock.
func acceptsClients(network messaging.Network, m *ring.Node) bool {
	if network == nil {
		network = messaging.TCP{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	// The zero source address leaves the choice to the system.
	c, err := network.Dial(ctx, netip.Addr{}, m.Native)
	if err != nil {
		return false
	}
	_ = c.Close() // nothing was written
	return true
}

// Up reports whether this node considers the member with the internode address alive. A node that is no member is not
// alive. It scans the members, which is cheap for tests and for `cqld local`; nothing on the path of a request calls
// it.
func (n *Node) Up(internode netip.AddrPort) bool {
	for _, m := range n.cluster.Metadata().Topology.Nodes() {
		if m.Internode == internode {
			return n.cluster.Alive(m.ID)
		}
	}
	return false
}

package node

import (
	"context"
	"errors"
	"time"

	"cqld/ring"
	"cqld/server"
)

// left is called when this node is not a member any more. From then on, it sends no events to its clients, which keep
// seeing the last ring that contained it (docs/adr/0016).
func (n *Node) left() {
	n.retiring.Store(true)
	clients := n.server.Swap(nil)
	n.running.Go(func() { n.retire(clients) })
}

// retire ends the service of a node that is not a member any more; the process keeps running so that operators can
// query it. Clients are served, with the last ring, until all other nodes know of the departure. A driver that is
// disconnected takes the ring from the next node, and a driver that receives a ring without the node it is connected to
// may never recover (docs/adr/0016).
func (n *Node) retire(clients *server.Server) {
	defer close(n.retired)
	n.log.Warn("node has left the cluster; it no longer serves clients")
	ctx, cancel := context.WithTimeout(context.Background(), departureTimeout)
	defer cancel()
	if err := n.cluster.AwaitDeparture(ctx); err != nil {
		n.log.Warn("closing client connections before all nodes know that this node has left", "err", err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), retireTimeout)
	defer cancel()
	if clients != nil {
		if err := clients.Leave(ctx, n.opts.Native()); err != nil {
			n.log.Warn("client connections closed before they were drained", "err", err)
		}
	}
	if err := n.drainTables(ctx); err != nil {
		n.log.Warn("Azure Tables connections closed before they were drained", "err", err)
	}
}

// Bounds of the wait until the other nodes know that this node has left, and until the last requests of its clients
// have ended. A node that does not answer is considered dead after two seconds.
const (
	departureTimeout = 5 * time.Second
	retireTimeout    = 10 * time.Second
)

// Retired returns a channel that is closed when this node is not a member any more and serves no clients.
func (n *Node) Retired() <-chan struct{} { return n.retired }

// awaitRetired returns when clients are no longer served, or when ctx ends.
func (n *Node) awaitRetired(ctx context.Context) {
	select {
	case <-n.retired:
	case <-ctx.Done():
	}
}

// isMember reports whether this node is a member.
func (n *Node) isMember() bool { return n.cluster.Metadata().Topology.Node(n.cluster.Self()) != nil }

// serveWhenJoined starts to serve clients as soon as this node has received its data.
func (n *Node) serveWhenJoined() error {
	for _, l := range n.engine.Lost() {
		n.log.Error("data lost in a corrupt file is not served; run cqld ctl repair to restore it",
			"table", n.schema().NameOf(l.Table), "tokens", l.Tokens.String(), "file", l.Path)
	}
	if !n.fetching() {
		n.awaitPeers()
		return n.openServer()
	}
	n.log.Info("streaming lost data before serving clients")
	n.running.Go(func() {
		for n.fetching() {
			select {
			case <-n.stopping:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		if n.cluster.Metadata().Topology.Node(n.cluster.Self()) == nil {
			n.fail(errors.New("node: the join of this node was aborted"))
			return
		}
		if err := n.openServer(); err != nil {
			n.fail(err)
		}
	})
	return nil
}

// fetching reports whether this node is a member that has not received its data yet.
func (n *Node) fetching() bool {
	m := n.cluster.Metadata().Topology.Node(n.cluster.Self())
	return m != nil && m.State == ring.Joining
}

// Joined reports whether this node serves clients, or would if its servers were started.
func (n *Node) Joined() bool { return !n.fetching() }

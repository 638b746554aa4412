package node

import (
	"context"
	"errors"
	"time"

	"cqld/ring"
	"cqld/server"
)

// left is called when this node is no member any more. From now on its clients hear nothing from it: what it has to say
// of the ring is not for those who are out of it.
func (n *Node) left() {
	n.retiring.Store(true)
	clients := n.server.Swap(nil)
	n.running.Go(func() { n.retire(clients) })
}

// retire ends the service of a node that is no member any more; it stays up to be asked what became
// of it. Clients are served until all others know, with the ring as it was: a driver that is cut off takes what the
// next node tells it for the ring, and one that is told of a ring without the node that it asks may never be right
// again (docs/adr/0016).
func (n *Node) retire(clients *server.Server) {
	defer close(n.retired)
	n.log.Warn("node has left the cluster; it no longer serves clients")
	ctx, cancel := context.WithTimeout(context.Background(), goneTimeout)
	defer cancel()
	if err := n.cluster.AwaitGone(ctx); err != nil {
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

// How long the others may take to hear that a node is gone, and the last requests of its clients. A node that does not
// answer is seen dead after two seconds.
const (
	goneTimeout   = 5 * time.Second
	retireTimeout = 10 * time.Second
)

// Retired is closed when this node is no member any more and serves no clients.
func (n *Node) Retired() <-chan struct{} { return n.retired }

// awaitRetired returns when clients are not served any more, or ctx ends.
func (n *Node) awaitRetired(ctx context.Context) {
	select {
	case <-n.retired:
	case <-ctx.Done():
	}
}

// isMember says whether this node is one.
func (n *Node) isMember() bool { return n.cluster.Metadata().Topology.Node(n.cluster.Self()) != nil }

// serveWhenJoined starts to serve clients as soon as this node has its data.
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

// fetching says whether this node is a member without its data.
func (n *Node) fetching() bool {
	m := n.cluster.Metadata().Topology.Node(n.cluster.Self())
	return m != nil && m.State == ring.Joining
}

// Joined says whether this node serves clients, or would if they were let in.
func (n *Node) Joined() bool { return !n.fetching() }

package node

import (
	"context"
	"errors"
	"time"

	"cqld/cluster"
	"cqld/ring"
)

// ringChanged is called by the cluster's loop when the metadata changed.
func (n *Node) ringChanged(old, now *cluster.Metadata) {
	if n.moves == nil || old.Topology == now.Topology && len(old.Unclean) == len(now.Unclean) {
		return
	}
	n.running.Go(n.moves.Look)
	n.running.Go(n.repairsMoved)
	self := n.cluster.Self()
	if old.Topology.Node(self) != nil && now.Topology.Node(self) == nil {
		n.running.Go(n.retire)
	}
}

// retire ends the service of a node that is no member any more; it stays up to be asked what became
// of it.
func (n *Node) retire() {
	n.log.Warn("this node is no member of the cluster any more; it serves no clients")
	if s := n.server.Swap(nil); s != nil {
		ctx, cancel := context.WithTimeout(context.Background(), retireTimeout)
		defer cancel()
		if err := s.Drain(ctx); err != nil {
			n.log.Warn("clients were cut off", "err", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), retireTimeout)
	defer cancel()
	if err := n.drainTables(ctx); err != nil {
		n.log.Warn("clients of Azure Tables were cut off", "err", err)
	}
}

// retireTimeout is how long the last requests of clients may take.
const retireTimeout = 10 * time.Second

// serveWhenJoined opens the door for clients as soon as this node has its data.
func (n *Node) serveWhenJoined() error {
	if !n.fetching() {
		n.awaitPeers()
		return n.openServer()
	}
	n.log.Info("this node fetches its data before it serves clients")
	n.running.Go(func() {
		for n.fetching() {
			select {
			case <-n.stopping:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		if n.cluster.Metadata().Topology.Node(n.cluster.Self()) == nil {
			n.fail(errors.New("node: the operation that made this node join was aborted"))
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

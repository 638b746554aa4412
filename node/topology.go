package node

import (
	"context"
	"errors"
	"time"

	"cqld/cluster"
	"cqld/replica"
	"cqld/ring"
)

// openMoves makes this node follow the ring's operations.
func (n *Node) openMoves(local *replica.Local) {
	v := view{n.cluster}
	n.streams = replica.NewStreams(replica.StreamOptions{
		Local: local, Engine: n.engine, Transport: n.transport, Clock: n.clock, Run: func(f func()) { n.running.Go(f) },
		Limits: replica.StreamLimits{BytesPerSecond: n.opts.StreamThroughput},
	})
	n.peers = replica.NewRepairs(replica.RepairOptions{
		Local: local, Engine: n.engine, Transport: n.transport, Clock: n.clock, Run: func(f func()) { n.running.Go(f) },
		Repaired: n.repaired,
	})
	n.moves = replica.NewMoves(replica.MovesOptions{
		View: v, Agreement: n.cluster, Streams: n.streams, Local: local, Engine: n.engine, Hashes: n.peers, Clock: n.clock,
		Unclean: n.unclean, Run: func(f func()) { n.running.Go(f) },
		Note: func(message string) { n.log.Info(message) },
	})
}

// unclean is the epoch since which this node has data that it lost; zero: it has none.
func (n *Node) unclean() uint64 {
	self := n.cluster.Self()
	for _, u := range n.cluster.Metadata().Unclean {
		if u.Node == self {
			return u.Epoch
		}
	}
	return 0
}

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

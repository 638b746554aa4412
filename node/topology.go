package node

import (
	"errors"
	"time"

	"cqld/node/clients"
	"cqld/ring"
)

// Retired returns a channel that is closed when this node is no longer a member and serves no clients.
func (n *Node) Retired() <-chan struct{} { return n.servers.Retired() }

// isMember reports whether this node is a member.
func (n *Node) isMember() bool { return n.cluster.Metadata().Topology.Node(n.cluster.Self()) != nil }

// serveWhenJoined starts to serve clients as soon as this node has received its data. It returns at once if the node is
// still joining: the servers are then opened by a goroutine. An error of the goroutine makes the node fail. It is the
// last step of open, and is called once. Operators who close and open the servers later use n.servers.
func (n *Node) serveWhenJoined() error {
	// Lost ranges are reported at every start until they are repaired.
	for _, l := range n.engine.Lost() {
		n.log.Error("data lost in a corrupt file is not served; run cqld ctl repair to restore it",
			"table", n.cluster.Metadata().Schema.NameOf(l.Table), "tokens", l.Tokens.String(), "file", l.Path)
	}
	// A member with its data serves clients after it has seen its peers.
	if !n.fetching() {
		awaitPeers(n.cluster, n.stopping, n.log)
		return n.unlessLeft(n.openServer())
	}
	n.log.Info("streaming lost data before serving clients")
	n.running.Go(func() {
		for n.fetching() {
			select {
			case <-n.stopping:
				return
			// The state changes once in the life of a node, so polling is cheaper than a subscription to the metadata.
			case <-time.After(50 * time.Millisecond):
			}
		}
		// Without an entry, the join was aborted while the node waited.
		if n.cluster.Metadata().Topology.Node(n.cluster.Self()) == nil {
			n.fail(errors.New("node: the join of this node was aborted"))
			return
		}
		// A join that completes while the node stops opens nothing: Close waits for this goroutine, but has closed
		// the servers before.
		if err := n.unlessLeft(n.openServer()); err != nil && !errors.Is(err, clients.ErrStopping) {
			n.fail(err)
		}
	})
	return nil
}

// unlessLeft returns the error of openServer, or nil if the node has left the ring meanwhile: then it has not failed,
// and Retired ends its process. The error may have any reason: a node that is no longer a member can, for example, not
// propose the first superuser.
func (n *Node) unlessLeft(err error) error {
	if n.servers.Left() {
		return nil
	}
	return err
}

// fetching reports whether this node is a member that has not received its data yet. The state is the one that this
// node has applied. A leader may have applied the end of the join earlier than this node, which then serves clients a
// little later.
func (n *Node) fetching() bool {
	m := n.cluster.Metadata().Topology.Node(n.cluster.Self())
	return m != nil && m.State == ring.Joining
}

package node

import "time"

// peersWait bounds how long a node that starts waits for the others before it lets clients in: those
// that live are seen within some tens of milliseconds, those that are dead are not worth more.
const peersWait = 2 * time.Second

// awaitPeers returns when this node sees all others alive, or has waited long enough. A node that let
// clients in before would answer that replicas are missing which are there.
func (n *Node) awaitPeers() {
	limit := time.NewTimer(peersWait)
	defer limit.Stop()
	for !n.seesAll() {
		select {
		case <-n.stopping:
			return
		case <-limit.C:
			n.log.Info("serving clients although some nodes are considered down")
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (n *Node) seesAll() bool {
	for _, m := range n.cluster.Metadata().Topology.Nodes() {
		if !n.cluster.Alive(m.ID) {
			return false
		}
	}
	return true
}

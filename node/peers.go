package node

import "time"

// peersWait bounds how long a starting node waits for the other nodes before it accepts clients. Live nodes are
// detected within some tens of milliseconds; dead nodes do not justify a longer delay.
const peersWait = 2 * time.Second

// awaitPeers returns when this node considers all others alive, or after peersWait. A node that accepted clients
// earlier would report live replicas as unavailable.
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

package node

import (
	"log/slog"
	"time"

	"cqld/cluster"
)

// peersWait bounds how long a starting node waits for the other nodes before it accepts clients. Live nodes are
// detected within some tens of milliseconds; dead nodes do not justify a longer delay.
const peersWait = 2 * time.Second

// awaitPeers returns when this node considers all others alive, or after peersWait. A node that accepted clients
// earlier would report live replicas as unavailable.
func awaitPeers(c *cluster.Cluster, stopping <-chan struct{}, log *slog.Logger) {
	limit := time.NewTimer(peersWait)
	defer limit.Stop()
	// A ring of one node, or one in which all nodes are alive, does not wait. Polling is sufficient here: it runs once
	// for each start, and liveness has no notification for a condition on all members.
	for !seesAll(c) {
		select {
		case <-stopping:
			return
		case <-limit.C:
			log.Info("serving clients although some nodes are considered down")
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// seesAll reports whether every member is considered alive, this one included.
func seesAll(c *cluster.Cluster) bool {
	for _, m := range c.Metadata().Topology.Nodes() {
		if !c.Alive(m.ID) {
			return false
		}
	}
	return true
}

package cluster

import (
	"slices"
	"testing"

	"cqld/messaging"
	"cqld/ring"
)

// sentNetwork records the receivers of heartbeats.
type sentNetwork struct {
	silentNetwork
	heartbeats *[]ring.NodeID
}

func (n sentNetwork) Send(to ring.NodeID, verb messaging.Verb, _ []byte) {
	if verb == messaging.VerbHeartbeat {
		*n.heartbeats = append(*n.heartbeats, to)
	}
}

// TestPeersGetHeartbeatWhenStreamConnects checks that a peer does not have to wait for the next regular heartbeat.
func TestPeersGetHeartbeatWhenStreamConnects(t *testing.T) {
	c, _ := forgedVoter(t)
	var sent []ring.NodeID
	c.opts.Network = sentNetwork{heartbeats: &sent}
	c.StreamChanged(2, true)
	if len(sent) != 1 || sent[0] != 2 {
		t.Fatalf("heartbeats to %v when the stream to 2 came up", sent)
	}
	if c.StreamChanged(2, false); len(sent) != 1 {
		t.Fatalf("heartbeats to %v when the stream to 2 broke", sent)
	}
}

// TestNoHeartbeatBeforeTheOwnAdmissionIsApplied checks that a joining node does not count as alive while it would
// refuse the requests of members, or those for tables that it does not know yet.
func TestNoHeartbeatBeforeTheOwnAdmissionIsApplied(t *testing.T) {
	c, _ := forgedVoter(t)
	var sent []ring.NodeID
	c.opts.Network = sentNetwork{heartbeats: &sent}
	before := *c.Metadata()
	before.Topology = ring.NewTopology(before.Epoch, slices.DeleteFunc(slices.Clone(before.Topology.Nodes()),
		func(n *ring.Node) bool { return n.ID == c.Self() }))
	now := c.view.meta.Swap(&before)
	c.StreamChanged(2, true)
	if c.progress.sendHeartbeats(); len(sent) != 0 {
		t.Fatalf("heartbeats to %v before this node is a member", sent)
	}
	c.view.meta.Store(now)
	if c.progress.sendHeartbeats(); len(sent) != 2 {
		t.Fatalf("heartbeats to %v after this node is a member", sent)
	}
}

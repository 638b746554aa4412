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

// loadExchange returns one report, and keeps what it receives.
type loadExchange struct {
	due      bool
	received map[ring.NodeID]string
}

func (l *loadExchange) Beat() []byte {
	if !l.due {
		return nil
	}
	l.due = false
	return []byte("beat")
}

func (l *loadExchange) Last() []byte { return []byte("last") }

func (l *loadExchange) Receive(from ring.NodeID, report []byte) { l.received[from] += string(report) }

// payloadNetwork keeps the payload of the last heartbeat.
type payloadNetwork struct {
	silentNetwork
	payload *[]byte
}

func (n payloadNetwork) Send(_ ring.NodeID, verb messaging.Verb, payload []byte) {
	if verb == messaging.VerbHeartbeat {
		*n.payload = payload
	}
}

// TestHeartbeatsCarryTheLoad sends heartbeats with and without a report, and receives them with and without an
// exchange, and truncated. A heartbeat counts whatever follows the part that every release has.
func TestHeartbeatsCarryTheLoad(t *testing.T) {
	c, _ := forgedVoter(t)
	exchange, payload := &loadExchange{due: true, received: map[ring.NodeID]string{}}, []byte(nil)
	c.opts.Network, c.opts.Load = payloadNetwork{payload: &payload}, exchange
	receive := func() { c.progress.handleHeartbeat(2, payload, nil) }
	c.progress.sendHeartbeats()
	with := payload
	receive()
	c.progress.sendHeartbeats()
	if len(payload) >= len(with) {
		t.Errorf("a heartbeat without a report has %d bytes, one with a report %d", len(payload), len(with))
	}
	receive()
	c.StreamChanged(2, true)
	receive()
	if got := exchange.received[2]; got != "beatlast" {
		t.Errorf("received %q", got)
	}
	for n := range with {
		payload = with[:n]
		receive()
	}
	if got := exchange.received[2]; got != "beatlast" {
		t.Errorf("received %q with truncated heartbeats", got)
	}
	c.opts.Load = nil
	payload = with
	receive()
	if r := c.progress.reports.Versions(2); r != c.opts.Versions {
		t.Errorf("the heartbeats report the versions %v", r)
	}
}

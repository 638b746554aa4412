package node

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cqld/cluster"
	"cqld/query"
	"cqld/ring"
	"cqld/schema"
	"cqld/server"
	"cqld/server/frame"
)

func (n *Node) replicaAddress(id ring.NodeID) netip.Addr {
	if m := n.cluster.Metadata().Topology.Node(id); m != nil {
		return m.Internode.Addr()
	}
	return netip.Addr{}
}

// Status describes this node's view of the ring.
type Status struct {
	Up, Members int
	Epoch       uint64
	Schema      schema.UUID
}

// Line returns the status in one line. Nodes that agree return the same line.
func (s Status) Line() string {
	return fmt.Sprintf("up=%d of=%d epoch=%d schema=%x", s.Up, s.Members, s.Epoch, s.Schema)
}

// Status returns this node's current view.
func (n *Node) Status() Status {
	m := n.cluster.Metadata()
	s := Status{Members: len(m.Topology.Nodes()), Epoch: m.Epoch, Schema: m.Schema.Version()}
	for _, node := range m.Topology.Nodes() {
		if n.cluster.Alive(node.ID) {
			s.Up++
		}
	}
	return s
}

// OnStatus registers f to be called whenever the status may have changed. f must not block.
func (n *Node) OnStatus(f func()) {
	n.mu.Lock()
	n.mu.onStatus = f
	n.mu.Unlock()
	f()
}

func (n *Node) statusChanged() {
	n.mu.Lock()
	f := n.mu.onStatus
	n.mu.Unlock()
	if f != nil {
		f()
	}
}

// metadataChanged notifies clients of changes of the metadata. This node's own reactions are in assembly.Reactions.
func (n *Node) metadataChanged(old, now *cluster.Metadata) {
	n.statusChanged()
	n.followRing(now.Topology)
	n.builds.retain(now.Schema)
	clients := n.servers.CQL()
	// a node that has left sends no events (docs/adr/0016)
	if clients == nil || now.Topology.Node(n.cluster.Self()) == nil {
		return
	}
	n.rolesChanged(clients, old, now)
	for _, e := range schema.Diff(old.Schema, now.Schema) {
		clients.NotifySchema(&query.SchemaChange{Change: e.Change, Target: e.Target, Keyspace: e.Keyspace,
			Name: e.Name, Args: e.Args})
	}
	n.notifyTopology(clients, old.Topology, now.Topology)
}

// servingNode returns a node if clients may see it: a node that is still receiving its data is not shown to them.
func servingNode(t *ring.Topology, id ring.NodeID) *ring.Node {
	if m := t.Node(id); m != nil && m.State != ring.Joining {
		return m
	}
	return nil
}

// notifyTopology notifies clients of nodes that joined, left or got other tokens. It is called when system.local and
// system.peers show the new topology, because drivers query them next.
func (n *Node) notifyTopology(clients *server.Server, old, now *ring.Topology) {
	for _, m := range old.Nodes() {
		if servingNode(old, m.ID) != nil && servingNode(now, m.ID) == nil {
			clients.NotifyTopology(frame.NodeRemoved, m.Native)
		}
	}
	for _, m := range now.Nodes() {
		was, is := servingNode(old, m.ID), servingNode(now, m.ID)
		switch {
		case is == nil:
		case was == nil:
			n.notifyNew(is)
		case !slices.Equal(was.Tokens, is.Tokens):
			clients.NotifyTopology(frame.NodeMoved, m.Native)
		}
	}
}

// notifyNew notifies clients that a node has joined and is up, as soon as they can connect to it. A node whose first
// data arrived immediately may not have sent a heartbeat yet.
func (n *Node) notifyNew(m *ring.Node) {
	n.mu.Lock()
	n.mu.unannounced[m.ID] = true
	n.mu.Unlock()
	n.running.Go(func() {
		up := n.awaitNative(m, func() bool { return n.servingNode(m.ID) != nil })
		n.mu.Lock()
		delete(n.mu.unannounced, m.ID)
		n.mu.Unlock()
		if clients := n.servers.CQL(); clients != nil && n.servingNode(m.ID) != nil {
			clients.NotifyTopology(frame.NodeNew, m.Native)
			if up {
				clients.NotifyStatus(frame.NodeUp, m.Native)
			}
		}
	})
}

func (n *Node) unannounced(id ring.NodeID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.unannounced[id]
}

// servingNode returns a node if clients currently may see it.
func (n *Node) servingNode(id ring.NodeID) *ring.Node {
	return servingNode(n.cluster.Metadata().Topology, id)
}

// aliveChanged is called when a peer went down or came up.
func (n *Node) aliveChanged(id ring.NodeID, up bool) {
	n.statusChanged()
	m, clients := n.servingNode(id), n.servers.CQL()
	if clients == nil || m == nil {
		return
	}
	if !up {
		clients.NotifyStatus(frame.NodeDown, m.Native)
		return
	}
	n.running.Go(func() {
		if !n.awaitNative(m, func() bool { return n.cluster.Alive(id) }) || n.unannounced(id) {
			return
		}
		if clients := n.servers.CQL(); clients != nil && n.servingNode(id) != nil {
			clients.NotifyStatus(frame.NodeUp, m.Native)
		}
	})
}

// nativeProbes is the maximum number of checks, a tenth of a second apart, whether the native port of a node that came
// up accepts connections. Clients are notified after one that succeeds.
const nativeProbes = 100

// awaitNative waits until a node is alive and accepts clients, and then returns true. It returns false when worth does,
// when this node stops, or after nativeProbes checks.
func (n *Node) awaitNative(m *ring.Node, worth func() bool) bool {
	for range nativeProbes {
		if !worth() {
			return false
		}
		if n.cluster.Alive(m.ID) {
			if n.acceptsClients(m) {
				return true
			}
		}
		select {
		case <-n.stopping:
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false
}

package notify

import (
	"slices"
	"sync"
	"time"

	"cqld/cluster"
	"cqld/cluster/metadata"
	"cqld/node/clients"
	"cqld/query"
	"cqld/ring"
	"cqld/schema"
	"cqld/server"
	"cqld/server/frame"
)

// Options configure New. All fields are required.
type Options struct {
	Cluster *cluster.Cluster
	Servers *clients.Servers
	// Reaches reports whether a connection to the native port of a member succeeds.
	Reaches  func(*ring.Node) bool
	Run      func(func()) // runs a function in a goroutine that the node waits for
	Stopping <-chan struct{}
}

// Notifier notifies CQL clients. Events are hints for drivers and may be lost with a connection; drivers read
// system.peers after they reconnect. The order of events about one node is kept except where a goroutine waits for the
// node's native port.
type Notifier struct {
	o  Options
	mu struct {
		sync.Mutex
		// AliveChanged leaves the first UP of these to notifyNew, because drivers ignore an UP of a node they do not
		// know.
		unannounced map[ring.NodeID]bool // new members that clients have not been notified of yet
	}
}

// New returns a notifier.
func New(o Options) *Notifier {
	n := &Notifier{o: o}
	n.mu.unannounced = map[ring.NodeID]bool{}
	return n
}

// MetadataChanged notifies clients of changes of the metadata. It is called by the cluster's loop, in the order of
// changes. Sending only queues the event, so the loop does not wait for a client.
func (n *Notifier) MetadataChanged(old, now *metadata.Metadata) {
	clients := n.o.Servers.CQL()
	// a node that has left sends no events (docs/adr/0016)
	if clients == nil || now.Topology.Node(n.o.Cluster.Self()) == nil {
		return
	}
	if old.Roles != now.Roles {
		clients.RecheckClients() // ends or restricts connections of roles that were dropped or changed
	}
	// Diff lists dropped elements before created ones, so that drivers can apply the events in order.
	for _, e := range schema.Diff(old.Schema, now.Schema) {
		clients.NotifySchema(&query.SchemaChange{Change: e.Change, Target: e.Target, Keyspace: e.Keyspace,
			Name: e.Name, Args: e.Args})
	}
	n.notifyTopology(clients, old.Topology, now.Topology)
}

// notifyTopology notifies clients of nodes that joined, left or got other tokens. It is called when system.local and
// system.peers show the new topology, because drivers query them next.
func (n *Notifier) notifyTopology(clients *server.Server, old, now *ring.Topology) {
	// Removals come first, so that a replacement at the same address is not removed by the event of its predecessor.
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
// data arrived immediately may not have sent a heartbeat yet. NEW_NODE is sent even if the port does not accept
// connections in time (up is false): the driver then tries by itself. UP follows in the same goroutine, so it never
// precedes NEW_NODE.
func (n *Notifier) notifyNew(m *ring.Node) {
	n.mu.Lock()
	n.mu.unannounced[m.ID] = true
	n.mu.Unlock()
	n.o.Run(func() {
		up := n.awaitNative(m, func() bool { return n.servingNode(m.ID) != nil })
		n.mu.Lock()
		delete(n.mu.unannounced, m.ID)
		n.mu.Unlock()
		if clients := n.o.Servers.CQL(); clients != nil && n.servingNode(m.ID) != nil {
			clients.NotifyTopology(frame.NodeNew, m.Native)
			if up {
				clients.NotifyStatus(frame.NodeUp, m.Native)
			}
		}
	})
}

func (n *Notifier) unannounced(id ring.NodeID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.unannounced[id]
}

// servingNode returns a node of a topology if clients may see it: a node that is still receiving its data is not shown
// to them. Cassandra's drivers would otherwise send requests to a node that lacks its ranges.
func servingNode(t *ring.Topology, id ring.NodeID) *ring.Node {
	if m := t.Node(id); m != nil && m.State != ring.Joining {
		return m
	}
	return nil
}

// servingNode returns a node if clients currently may see it.
func (n *Notifier) servingNode(id ring.NodeID) *ring.Node {
	return servingNode(n.o.Cluster.Metadata().Topology, id)
}

// AliveChanged is called when a peer went down or came up. DOWN is sent at once, and UP only after the native port has
// accepted a connection: a driver that gets UP reconnects at once, and after a failure waits for its reconnection
// policy.
func (n *Notifier) AliveChanged(id ring.NodeID, up bool) {
	m, clients := n.servingNode(id), n.o.Servers.CQL()
	if clients == nil || m == nil {
		return
	}
	if !up {
		clients.NotifyStatus(frame.NodeDown, m.Native)
		return
	}
	n.o.Run(func() {
		if !n.awaitNative(m, func() bool { return n.o.Cluster.Alive(id) }) || n.unannounced(id) {
			return
		}
		if clients := n.o.Servers.CQL(); clients != nil && n.servingNode(id) != nil {
			clients.NotifyStatus(frame.NodeUp, m.Native)
		}
	})
}

// nativeProbes is the maximum number of checks, a tenth of a second apart, whether the native port of a node that came
// up accepts connections. Clients are notified after one that succeeds.
const nativeProbes = 100

// awaitNative waits until a node is alive and accepts clients, and then returns true. It returns false when worth does,
// when this node stops, or after nativeProbes checks.
func (n *Notifier) awaitNative(m *ring.Node, worth func() bool) bool {
	for range nativeProbes {
		if !worth() {
			return false
		}
		if n.o.Cluster.Alive(m.ID) {
			if n.o.Reaches(m) {
				return true
			}
		}
		select {
		case <-n.o.Stopping:
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false
}

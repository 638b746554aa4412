package node

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"cqld/cluster"
	"cqld/query"
	"cqld/ring"
	"cqld/schema"
	"cqld/server"
)

func (n *Node) replicaAddress(id ring.NodeID) netip.Addr {
	if m := n.cluster.Metadata().Topology.Node(id); m != nil {
		return m.Internode.Addr()
	}
	return netip.Addr{}
}

// Status is what a node can say of the ring.
type Status struct {
	Up, Members int
	Epoch       uint64
	Schema      schema.UUID
}

// Line is the status in one line; nodes that agree print the same.
func (s Status) Line() string {
	return fmt.Sprintf("up=%d of=%d epoch=%d schema=%x", s.Up, s.Members, s.Epoch, s.Schema)
}

// Status is this node's view at the moment.
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

// OnStatus makes f be called whenever the status may have changed. f must not block.
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

// metadataChanged tells clients and storage what the cluster agreed on.
func (n *Node) metadataChanged(old, now *cluster.Metadata) {
	n.statusChanged()
	n.dropTables(old.Schema, now.Schema)
	n.ringChanged(old, now)
	clients := n.server.Load()
	if clients == nil {
		return
	}
	for _, e := range schema.Diff(old.Schema, now.Schema) {
		clients.NotifySchema(&query.SchemaChange{Change: e.Change, Target: e.Target, Keyspace: e.Keyspace, Name: e.Name})
	}
	n.notifyTopology(clients, old.Topology, now.Topology)
}

// notifyTopology tells clients of nodes that came, went or got other tokens; one that still fetches its
// data is none of theirs.
func (n *Node) notifyTopology(clients *server.Server, old, now *ring.Topology) {
	member := func(t *ring.Topology, id ring.NodeID) *ring.Node {
		if m := t.Node(id); m != nil && m.State != ring.Joining {
			return m
		}
		return nil
	}
	for _, m := range now.Nodes() {
		was, is := member(old, m.ID), member(now, m.ID)
		switch {
		case is == nil:
		case was == nil:
			clients.NotifyTopology("NEW_NODE", m.Native)
		case !slices.Equal(was.Tokens, is.Tokens):
			clients.NotifyTopology("MOVED_NODE", m.Native)
		}
	}
	for _, m := range old.Nodes() {
		if member(old, m.ID) != nil && member(now, m.ID) == nil {
			clients.NotifyTopology("REMOVED_NODE", m.Native)
		}
	}
}

// dropTables gives back the space of tables that are gone.
func (n *Node) dropTables(old, now *schema.Schema) {
	for _, id := range old.StorageIDs() {
		if now.TableByStorage(id) != nil {
			continue
		}
		n.running.Go(func() {
			n.measured.forget(id)
			if err := n.engine.DropTable(id); err != nil {
				n.log.Error("a dropped table's data stays on disk", "err", err)
			}
		})
	}
}

// nativeProbes is how often, a tenth of a second apart, a node that came up is asked for its
// native port before clients are told.
const nativeProbes = 100

// notifyStatus tells the clients that are connected now.
func (n *Node) notifyStatus(change string, native netip.AddrPort) {
	if s := n.server.Load(); s != nil {
		s.NotifyStatus(change, native)
	}
}

// aliveChanged hears of a peer that went down or came up.
func (n *Node) aliveChanged(id ring.NodeID, up bool) {
	n.statusChanged()
	if n.coordinator != nil && up {
		n.coordinator.NodeUp(id)
		n.autoRepair.Look()
	}
	m := n.cluster.Metadata().Topology.Node(id)
	if n.server.Load() == nil || m == nil {
		return
	}
	if !up {
		n.notifyStatus("DOWN", m.Native)
		return
	}
	n.running.Go(func() {
		for range nativeProbes {
			if !n.cluster.Alive(id) {
				return
			}
			if c, err := net.DialTimeout("tcp", m.Native.String(), time.Second); err == nil {
				c.Close()
				n.notifyStatus("UP", m.Native)
				return
			}
			select {
			case <-n.stopping:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
}

package node

import (
	"fmt"
	"net/netip"

	"cqld/cluster/metadata"
	"cqld/ring"
	"cqld/schema"
)

// replicaAddress returns the internode address of a member. The zero address means that the node is not a member any
// longer.
func replicaAddress(t *ring.Topology, id ring.NodeID) netip.Addr {
	if m := t.Node(id); m != nil {
		return m.Internode.Addr()
	}
	return netip.Addr{}
}

// Status describes this node's view of the ring. It is printed by tests and by `cqld local`, which wait until all
// nodes agree.
type Status struct {
	Up, Members int         // members that this node considers alive, and all members
	Epoch       uint64      // of the metadata
	Schema      schema.UUID // version of the schema
}

// Line returns the status in one line. Nodes that agree return the same line. For example: up=3 of=3 epoch=17
// schema=6b1f….
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

// OnStatus registers f to be called whenever the status may have changed. f must not block. f is also called once,
// immediately. It replaces a function that was registered before. f runs in the goroutine that has changed the status,
// which is usually the cluster's loop. It may run concurrently with itself, and may be called without a change.
func (n *Node) OnStatus(f func()) {
	n.mu.Lock()
	n.mu.onStatus = f
	n.mu.Unlock()
	// Outside the lock, because f may call Status.
	f()
}

// statusChanged calls the registered function, if there is one.
func (n *Node) statusChanged() {
	n.mu.Lock()
	f := n.mu.onStatus
	n.mu.Unlock()
	if f != nil {
		f()
	}
}

// metadataChanged notifies clients of changes of the metadata. This node's own reactions are in assembly.Reactions. It
// is called after each change was applied, in order. old and now are immutable snapshots. The cluster's loop calls it,
// so it must not block or wait for another change.
func (n *Node) metadataChanged(old, now *metadata.Metadata) {
	n.statusChanged()
	if n.commands == nil {
		// The cluster loads the last snapshot of its log while it opens, before the other parts exist. They begin with
		// the metadata as they find them.
		return
	}
	n.commands.MetadataChanged(now)
	n.notifier.MetadataChanged(old, now)
}

// aliveChanged is called when a peer went down or came up. It is called for changes of other nodes only.
func (n *Node) aliveChanged(id ring.NodeID, up bool) {
	n.statusChanged()
	n.notifier.AliveChanged(id, up)
}

package cluster

import (
	"slices"
	"strings"
	"sync/atomic"

	"cqld/cluster/liveness"
	"cqld/cluster/metadata"
	"cqld/internal/invariant"
	"cqld/ring"
)

// view is this node's current state: the metadata that it has applied, and which members are alive. All methods are
// safe for concurrent use; only the loop publishes metadata.
type view struct {
	meta     atomic.Pointer[metadata.Metadata]
	last     atomic.Pointer[ring.Topology] // the last ring of a former member
	detector *liveness.Detector
}

// metadata returns the newest metadata that this node has applied.
func (v *view) metadata() *metadata.Metadata { return v.meta.Load() }

// self returns this node's id; zero before it is a member.
func (v *view) self() ring.NodeID { return v.detector.Self() }

// alive reports whether this node considers a member alive. This node itself is alive.
func (v *view) alive(id ring.NodeID) bool { return v.detector.Alive(id) }

// admitted reports whether this node has applied its own admission to the ring. A joining node applies the log from its
// beginning. Until its own admission it lacks members and tables, and refuses requests that involve them. It sends no
// heartbeats until then, because they would make the other nodes count it as a live replica.
func (v *view) admitted() bool { return v.metadata().Topology.Node(v.self()) != nil }

// swap publishes m to readers and returns the previous metadata.
func (v *view) swap(m *metadata.Metadata) (old *metadata.Metadata) {
	old = v.metadata()
	invariant.Check(m.Epoch >= old.Epoch, "cluster: metadata of epoch %d replace epoch %d", m.Epoch, old.Epoch)
	// A reader that no longer finds this node in the ring must find the last ring instead.
	if self := v.self(); old.Topology.Node(self) != nil && m.Topology.Node(self) == nil {
		v.last.Store(old.Topology)
	}
	// Stored after last, for the same reason.
	v.meta.Store(m)
	return old
}

// lastRing returns the newest topology that contains this node: for a former member, the one before its departure;
// before this node is a member, the current one.
func (v *view) lastRing() *ring.Topology {
	t := v.metadata().Topology
	if t.Node(v.self()) == nil {
		if last := v.last.Load(); last != nil {
			return last
		}
	}
	return t
}

// names returns the addresses of members.
func (v *view) names(ids []ring.NodeID) (out []string) {
	t := v.metadata().Topology
	for _, id := range ids {
		out = append(out, t.NameOf(id))
	}
	return out
}

// describeNodes lists members, and which of them are down.
func (v *view) describeNodes(ids []ring.NodeID) string {
	t := v.metadata().Topology
	var parts []string
	for _, id := range slices.Sorted(slices.Values(ids)) {
		name := t.NameOf(id)
		if !v.alive(id) {
			name += " (down)"
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}

package replica

import (
	"sync"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
)

// Directory contains the replicas of all nodes: Local for this one, a Remote for each other.
//
// A Remote is kept for every node that was ever requested, even if the node has left, because Remotes hold no
// resources.
type Directory struct {
	local     *Local
	transport messaging.Transport
	view      coordinator.View
	remotes   sync.Map // ring.NodeID → *Remote
}

// NewDirectory returns the directory of the node of local.
func NewDirectory(local *Local, transport messaging.Transport, view coordinator.View) *Directory {
	return &Directory{local: local, transport: transport, view: view}
}

// Replica implements coordinator.Replicas.
func (d *Directory) Replica(node ring.NodeID) coordinator.Replica {
	if r, ok := d.remotes.Load(node); ok {
		return r.(*Remote)
	}
	// The map is searched first, because other nodes are requested more often. This node's id is zero until it is a
	// member.
	if node == d.view.Self() {
		return d.local
	}
	// Two goroutines may create a Remote at the same time; both then use the same one.
	r, _ := d.remotes.LoadOrStore(node, NewRemote(node, d.transport, d.view))
	return r.(*Remote)
}

package repair

import (
	"time"

	"cqld/replica"
	"cqld/ring"
	"cqld/schema"
)

// LeafHash is the hash of what one replica holds of a part of a range: a sum, so that it can be made in
// steps.
type LeafHash struct {
	Sum  [2]uint64
	Rows uint64
}

// Add adds a hash of other rows.
func (h *LeafHash) Add(o LeafHash) {
	h.Sum[0] += o.Sum[0]
	h.Sum[1] += o.Sum[1]
	h.Rows += o.Rows
}

// HashRequest asks a replica for one step of hashing a range that does not wrap, in Leaves parts.
type HashRequest struct {
	Session uint64 // of the repair; see Notice
	Epoch   uint64
	Table   schema.StorageID
	Tokens  ring.Range
	Leaves  int
	Now     int64  // seconds; the same for all replicas
	After   []byte // HashStep.Next of the step before; nil at first
	// Since is the epoch that the replica must know: it refuses as long as it does not, and waits until
	// all that it admitted before it did is with its storage. Zero: any.
	Since uint64
}

// HashStep is what one step found.
type HashStep struct {
	Leaves  []int // of which Hashes are
	Hashes  []LeafHash
	Next    []byte // nil when the range is done
	Scanned int64  // bytes
	Size    int64  // of the whole range on disk, about
}

// Notice says that all replicas of a range have everything that any of them was sent before
// Until (seconds). Session names the repair that saw to that: what a node lost after its first step in
// it is not healed by it.
type Notice struct {
	Session uint64
	Table   schema.StorageID
	Tokens  ring.Range
	Until   int64
}

// Peers is how a repair talks to replicas, this node's own included. done is called once,
// possibly at once; what the step points to is the callee's.
type Peers interface {
	Hash(node ring.NodeID, req *HashRequest, timeout time.Duration, done func(HashStep, error))
	Repaired(node ring.NodeID, notice *Notice, timeout time.Duration, done func(error))
}

// PaxosStates lists and removes the Paxos state of replicas, this node's own included. done is called once, possibly at once.
type PaxosStates interface {
	// Conditional reports whether this node has Paxos state of the table, as of its last look.
	Conditional(table schema.StorageID, done func(bool, error))
	Paxos(node ring.NodeID, req *replica.PaxosRequest, timeout time.Duration, done func(replica.PaxosStep, error))
}

// LocalStore is a node's own keys.
type LocalStore interface {
	SetLocal(key, value []byte, sync bool) error
	GetLocal(key []byte) ([]byte, error)
	DeleteLocal(key []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

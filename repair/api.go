package repair

import (
	"time"

	"cqld/ring"
	"cqld/row"
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

// PaxosRequest asks a replica for one step over its Paxos state of a table, in a range that does not wrap.
type PaxosRequest struct {
	// Epoch and Moved are those of the topology that the repair goes by. A replica that knows of another ring refuses
	// with NotReplica, and fails as long as the ring is about to change.
	Epoch, Moved uint64
	Table        schema.StorageID
	Tokens       ring.Range
	// Floor is the table's (µs). A replica that has not heard of it refuses; before the first step it waits until all
	// that it admitted before is in its state.
	Floor int64
	// Forget removes the state up to the floor, on disk; else what was accepted up to there, or resting on a ballot before
	// there, is listed when it is not known to be decided.
	Forget bool
	After  *row.PartitionKey // PaxosStep.Next of the step before; nil at first
}

// PaxosStep is what one step found.
type PaxosStep struct {
	Unsettled []row.PartitionKey
	Forgotten int               // states
	Next      *row.PartitionKey // nil when the range is done
	Scanned   int64             // bytes
}

// Peers is how a repair talks to replicas, this node's own included. done is called once,
// possibly at once; what the step points to is the callee's.
type Peers interface {
	// Conditional says whether this node has Paxos state of the table, as far as it knows: it looks now and then.
	Conditional(table schema.StorageID, done func(bool, error))
	Paxos(node ring.NodeID, req *PaxosRequest, timeout time.Duration, done func(PaxosStep, error))
	Hash(node ring.NodeID, req *HashRequest, timeout time.Duration, done func(HashStep, error))
	Repaired(node ring.NodeID, notice *Notice, timeout time.Duration, done func(error))
}

// LocalStore is a node's own keys.
type LocalStore interface {
	SetLocal(key, value []byte, sync bool) error
	GetLocal(key []byte) ([]byte, error)
	DeleteLocal(key []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

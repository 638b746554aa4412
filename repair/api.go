package repair

import (
	"time"

	"cqld/paxos/acceptor"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// LeafHash is the hash of one replica's data of a part of a range. It is a sum over rows, so that it can be computed in
// steps.
//
// Addition is commutative, so the order of rows and steps does not matter. Two replicas have the same hash if they
// have the same rows, and different ones with near certainty if they have not.
type LeafHash struct {
	Sum  [2]uint64
	Rows uint64
}

// Add adds the hash of other rows.
func (h *LeafHash) Add(o LeafHash) {
	h.Sum[0] += o.Sum[0]
	h.Sum[1] += o.Sum[1]
	h.Rows += o.Rows
}

// HashRequest requests one step of hashing a range, which does not wrap, in Leaves parts.
type HashRequest struct {
	// A replica remembers the time of the first step of each session (Service).
	Session uint64 // of the repair; see Notice
	Epoch   uint64
	Table   schema.StorageID
	Tokens  ring.Range
	Leaves  int
	Now     int64  // seconds; the same for all replicas
	After   []byte // HashStep.Next of the previous step; nil in the first
	// Since is an epoch that the replica must have applied; until then it refuses. Before the first step, it waits
	// until all mutations that it admitted at earlier epochs are in storage. Zero means any epoch.
	Since uint64
}

// HashStep is the result of one step.
type HashStep struct {
	Leaves []int // the indexes of Hashes
	Hashes []LeafHash
	Next   []byte // nil when the range is done
	// Scanned is what the step costs of the budget, and Size determines the number of leaves.
	Scanned int64 // bytes
	Size    int64 // estimate of the whole range on disk
}

// Notice reports to a replica that all replicas of a range have every write that any of them received before Until
// (seconds). Session identifies the repair; it does not restore data that a replica lost after its first step of the
// session.
type Notice struct {
	Session uint64
	Table   schema.StorageID
	Tokens  ring.Range
	Until   int64
}

// Peers sends requests to replicas, this node included. done is called once, possibly before the method returns. The
// callee may keep the step and its slices. Service implements it.
type Peers interface {
	Hash(node ring.NodeID, req *HashRequest, timeout time.Duration, done func(HashStep, error))
	Repaired(node ring.NodeID, notice *Notice, timeout time.Duration, done func(error))
}

// PaxosStates lists and removes the Paxos state of replicas, this node's own included. done is called once, possibly at
// once.
type PaxosStates interface {
	// Conditional reports whether this node had Paxos state of the table at its last scan.
	Conditional(table schema.StorageID, done func(bool, error))
	Paxos(node ring.NodeID, req *acceptor.PurgeRequest, timeout time.Duration, done func(acceptor.PurgeStep, error))
}

// Proposer executes rounds of Paxos in which every replica votes. Package paxos implements it.
type Proposer interface {
	// SettleProposals executes a round of a partition: afterwards, each proposal that any replica had accepted before
	// is decided and on all replicas, or void. All replicas must be alive.
	SettleProposals(table schema.StorageID, key row.PartitionKey, timeout time.Duration, done func(error))
}

// LocalStore stores keys of this node that are not replicated.
//
// GetLocal returns nil for a key that does not exist. Callers that can repeat work write without a sync.
type LocalStore interface {
	SetLocal(key, value []byte, sync bool) error
	GetLocal(key []byte) ([]byte, error)
	DeleteLocal(key []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

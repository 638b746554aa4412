package coordinator

import (
	"time"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// View is what the coordinator knows of the cluster at the moment: node fills it in.
type View interface {
	Self() ring.NodeID
	Schema() *schema.Schema
	Topology() *ring.Topology
	// Alive is this node's own opinion.
	Alive(ring.NodeID) bool
	// PaxosFloor is the time (µs) of the ballot up to which a table's acceptors refuse, as if they had promised it.
	PaxosFloor(schema.StorageID) int64
}

// Replica is one node's share of the work, on this node or another. Every method returns at once
// and calls done exactly once, possibly before it returns; a failure that certainly did nothing is
// ErrNotSent (errors.Is). epoch is that of the topology the request was planned with: a replica that
// knows of a later change of who holds what refuses with NotReplica.
type Replica interface {
	// Apply makes the mutations durable (unless the keyspace says otherwise) and visible.
	Apply(epoch uint64, mutations []*row.Mutation, timeout time.Duration, done func(error))
	// Read answers with a page that is valid until done returns.
	Read(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(page []byte, err error))
	// Digest answers with the digest of the page that Read would answer with.
	Digest(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(row.Digest, error))
	// Truncate drops all rows of a table, and what is kept for others of it. One that has been made is not made again.
	Truncate(epoch uint64, t Truncation, timeout time.Duration, done func(error))
}

// Blocking is a Replica on this node that can also read in the caller's goroutine, which waits for the disk then: a
// request's own goroutine may, the goroutine of a stream, a timer or a commit may not.
type Blocking interface {
	ReadHere(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(page []byte, err error))
	DigestHere(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(row.Digest, error))
}

// Purpose is why mutations are sent; receivers may treat them differently.
type Purpose uint8

// The purposes.
const (
	ForWrite Purpose = iota + 1
	ForReadRepair
	ForHint
)

// Remote is a Replica that sends bytes: what goes to several of them is encoded once, and carries
// the epoch of the topology it was planned with. A request's bytes are not kept after the call.
type Remote interface {
	Replica
	AppendMutations(dst []byte, epoch uint64, mutations []*row.Mutation) []byte
	ApplyEncoded(purpose Purpose, request []byte, timeout time.Duration, done func(error))
	AppendRead(dst []byte, epoch uint64, cmd *row.ReadCommand) []byte
	// cancel, which may be nil, is of the operation that asks: when it ends, the other node stops.
	ReadEncoded(request []byte, timeout time.Duration, cancel *env.Cancel, done func(page []byte, err error))
	DigestEncoded(request []byte, timeout time.Duration, cancel *env.Cancel, done func(row.Digest, error))
}

// Replicas finds the replica that a node is.
type Replicas interface {
	Replica(ring.NodeID) Replica
}

// WriteType is what kind of write timed out, as the native protocol names it (v5 §9).
type WriteType string

// The write types.
const (
	WriteSimple        WriteType = "SIMPLE"
	WriteBatch         WriteType = "BATCH"
	WriteUnloggedBatch WriteType = "UNLOGGED_BATCH"
	WriteCounter       WriteType = "COUNTER"
	WriteBatchLog      WriteType = "BATCH_LOG"
	WriteCAS           WriteType = "CAS"
)

// WriteRequest is mutations to be applied, each atomically, in no order.
type WriteRequest struct {
	Mutations   []*row.Mutation
	Consistency ring.Consistency
	Type        WriteType
	Timeout     time.Duration
	Trace       Trace
	// Ordered says that tables with write_ordering are among those of the mutations. What has the timestamp Stamp, or
	// that less one, is moved after all that a quorum holds of it (order.go); what a client stamped stays.
	Ordered bool
	Stamp   int64
	// Applied says that this node has applied the mutations already, durably.
	Applied bool
	// Settled, when not nil, is called once, when no answer to the request is awaited any more.
	Settled func(Settlement)
	// Sender, when not nil, sends the only mutation to each replica in place of Replica.Apply. Package paxos commits what
	// was decided by it.
	Sender Sender
}

// Settlement says which replicas have a write when no answer is awaited any more.
type Settlement struct {
	// Hinted says that every replica has acknowledged its share, or that a hint for it is on disk.
	Hinted bool
	// Majority says that of the replicas of each mutation a majority has acknowledged it, or all that were alive, and at least
	// one.
	Majority bool
}

// Sender sends a mutation to replicas. Send returns at once and calls done exactly once, as the methods of Replica do.
type Sender interface {
	Send(node ring.NodeID, epoch uint64, timeout time.Duration, done func(error))
}

// ReadRequest is a command to be answered from as many replicas as the level asks for.
type ReadRequest struct {
	Command     *row.ReadCommand
	Consistency ring.Consistency
	Timeout     time.Duration
	// Contention is how long a serial read competes with other proposers. Package paxos executes such reads; zero means its
	// default.
	Contention time.Duration
	Trace      Trace
	// Cancel ends the read early, here and at the replicas, with env.ErrCanceled; nil: nothing does. Command has the same.
	Cancel *env.Cancel
	// Blocks says that the caller's goroutine may wait for the disk. What this node is asked first is read there then,
	// without a worker.
	Blocks bool
}

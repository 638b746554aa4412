package coordinator

import (
	"time"

	"cqld/coordinator/write"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// View is this node's current view of the cluster: schema, topology and liveness. Package node implements it.
type View interface {
	write.View
	// PaxosFloor returns the low bound (µs) of a table: its acceptors refuse ballots up to it, as if they had promised
	// it.
	PaxosFloor(schema.StorageID) int64
}

// Replica is a node in its role as a replica, this node or another one. Every method returns at once and calls done
// exactly once, possibly before it returns. A failure that certainly had no effect is ErrNotSent (errors.Is). epoch is
// the epoch of the topology with which the request was planned: a replica that knows of a later change of replica sets
// refuses with NotReplica.
type Replica interface {
	// Apply makes the mutations durable (unless the keyspace has durable_writes disabled) and visible.
	Apply(epoch uint64, mutations []*row.Mutation, timeout time.Duration, done func(error))
	// Read returns a page that is valid until done returns.
	Read(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(page []byte, err error))
	// Digest returns the digest of the page that Read would return.
	Digest(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(row.Digest, error))
	// Truncate drops all rows of a table, and the hints and logged batches for it. A repeated truncation has no effect.
	Truncate(epoch uint64, t Truncation, timeout time.Duration, done func(error))
}

// Blocking is a Replica on this node that can also read in the caller's goroutine, which then blocks on the disk. A
// request's own goroutine may block; the goroutine of a stream, a timer or a commit may not.
type Blocking interface {
	ReadHere(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(page []byte, err error))
	DigestHere(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(row.Digest, error))
}

// Purpose is the reason for sending mutations; receivers may treat them differently.
type Purpose uint8

// The purposes.
const (
	ForWrite Purpose = iota + 1
	ForReadRepair
	ForHint
)

// Remote is a Replica that sends encoded requests. A request for several replicas is encoded once, and contains the
// epoch of the topology with which it was planned. The methods do not retain a request's bytes.
type Remote interface {
	Replica
	AppendMutations(dst []byte, epoch uint64, mutations []*row.Mutation) []byte
	ApplyEncoded(purpose Purpose, request []byte, timeout time.Duration, done func(error))
	AppendRead(dst []byte, epoch uint64, cmd *row.ReadCommand) []byte
	// cancel, which may be nil, belongs to the requesting operation: when it is canceled, the other node stops.
	ReadEncoded(request []byte, timeout time.Duration, cancel *env.Cancel, done func(page []byte, err error))
	DigestEncoded(request []byte, timeout time.Duration, cancel *env.Cancel, done func(row.Digest, error))
}

// Replicas returns a node's Replica.
type Replicas interface {
	Replica(ring.NodeID) Replica
}

// WriteType is the kind of a write that timed out, as named by the native protocol (v5 §9).
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

// WriteRequest contains mutations, each applied atomically, in no order.
type WriteRequest struct {
	Mutations   []*row.Mutation
	Consistency ring.Consistency
	Type        WriteType
	Timeout     time.Duration
	Trace       Trace
	// Ordered means that some of the mutations' tables have write_ordering. Cells with the timestamp Stamp or Stamp-1
	// get a timestamp later than all that a quorum stores for them (order.go); timestamps set by clients stay.
	Ordered bool
	Stamp   int64
	// Applied means that this node has applied the mutations already, durably.
	Applied bool
	// Blocks means that the caller's goroutine may block on the disk. Package counters then reads in it.
	Blocks bool
	// Since is set for mutations that this node had stored and now replays: it is the monotonic time of the
	// BeginSending that preceded reading them. A truncation prepared later than Since makes the hints of the write
	// void. Zero means that the write begins now.
	Since time.Duration
	// Created is also set for replayed mutations: it is the time at which the oldest of them was first written (ns
	// since 1970). Their hints expire gc_grace_seconds after it. Zero means that hints expire gc_grace_seconds after
	// they are stored.
	Created int64
	// Settled, if not nil, is called once, when no answer to the request is outstanding.
	Settled func(Settlement)
	// Sender, if not nil, sends the only mutation to each replica instead of Replica.Apply. Package paxos uses it for
	// the commit of a decided change.
	Sender Sender
}

// Settlement reports how far a write has been replicated once no answer is outstanding.
type Settlement struct {
	// Hinted reports that every replica has acknowledged its mutations, or that a hint for it is on disk.
	Hinted bool
	// Majority reports that each mutation was acknowledged by a majority of its replicas or, if fewer were alive, by
	// all live ones, but at least one.
	Majority bool
}

// Sender sends a mutation to replicas. Send returns at once and calls done exactly once, as the methods of Replica do.
type Sender interface {
	Send(node ring.NodeID, epoch uint64, timeout time.Duration, done func(error))
}

// ReadRequest is a command to be executed at as many replicas as the consistency level requires.
type ReadRequest struct {
	Command     *row.ReadCommand
	Consistency ring.Consistency
	Timeout     time.Duration
	// Contention limits the time for which a serial read competes with other proposers. Package paxos executes such
	// reads; zero means its default.
	Contention time.Duration
	Trace      Trace
	// Only restricts a read at ALL to these nodes: it reads and repairs all of them that are replicas, and no others.
	// nil means all replicas.
	Only []ring.NodeID
	// Cancel ends the read early with env.ErrCanceled, on this node and on the replicas; nil means that the read
	// cannot be canceled. Command refers to the same Cancel.
	Cancel *env.Cancel
	// Blocks means that the caller's goroutine may block on the disk. The first request to this node is then executed
	// in it, without a worker.
	Blocks bool
	// Memory bounds the bytes that the read uses if the answers of the replicas differ: for their pages, for the
	// merge and for repairs. A read that needs more fails with NeedsMemory. Zero means no bound.
	Memory int
	// Grow reserves memory for the searches of a read of a view (package view), which fails with NeedsMemory without
	// enough. The bytes of Memory are reserved already when the read begins. nil means no bound. Other reads do not
	// call it.
	Grow Grow
}

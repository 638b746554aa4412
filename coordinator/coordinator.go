package coordinator

import (
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator/fence"
	"cqld/coordinator/latency"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Options are what a coordinator is made of. View, Replicas and Clock are required.
type Options struct {
	View     View
	Replicas Replicas
	Clock    env.Clock
	// Run does background work that takes the time of a disk, in a goroutine of its own: what a timer or another node's
	// answer begins must not block there. At most one such piece of work runs for each node that has hints, for the
	// batch log and for a handing over. Nil: the caller does it.
	Run             func(func())
	Rand            env.Rand // jitter of hint replay; nil for none
	LocalDatacenter string
	Limits          Limits
	Hints           HintStore  // nil: no hints are kept
	Stamps          Timestamps // nil: stamps of Clock, which follow nobody's
	Unsafe          Unsafe
	// Arriving says that a node was let into the ring moments ago that this one has not heard yet; nil: never.
	Arriving func() bool
	// Confirmed says whether View is as new as what a majority of the cluster had agreed on when this node started: until
	// then hints and logged batches wait. Nil: it always is.
	Confirmed func() bool
	// OnError is told of failures that no request waits for; nil: nobody is.
	OnError func(error)
	// Guard ends operations and conditions that panic; nil: a panic goes on.
	Guard *guard.Guard
}

// Unsafe switches safeguards off, for the tests that show that they are needed.
type Unsafe struct {
	NoReadRepair bool // merge differing answers, but do not repair before answering
	NoShortRead  bool // do not continue reads that replicas' limits ended early
	NoHints      bool
	NoReplan     bool // do not plan again when a replica refuses

	ForgetHints bool // every third hint is dropped, and counts as stored

	// CounterNotIdempotent makes a leader count a message as often as it comes.
	CounterNotIdempotent bool
	NoBatchlog           bool // write logged batches as others
	NoHandOver           bool // a node that leaves takes with it what it keeps of logged batches
	NoHintHandOver       bool // a node that leaves takes its hints with it
	NoTruncationFence    bool // drop rows while writes from before are on their way
	RepairTruncated      bool // let reads repair while a table is truncated
	NoTruncationPrepared bool // make truncations that a dead coordinator sent long ago
	NoTruncationStreams  bool // let streams bring what was read before a truncation
	HintsSecure          bool // batches are forgotten when hints for all of their replicas are on one disk
	NoWriteOrder         bool // do not act on the table option write_ordering

	// StaleEpochs makes replicas take what was planned for an earlier ring; OneSided counts a write when
	// its level is met among the replicas of now alone, and votes likewise.
	StaleEpochs, OneSided bool
	// ReadOneSide makes reads ask the replicas of now alone while an operation is Switching.
	ReadOneSide bool
}

// Coordinator takes requests to their replicas. Its methods may be called from any goroutine.
type Coordinator struct {
	view     View
	replicas Replicas
	clock    env.Clock
	localDC  string
	limits   Limits
	unsafe   Unsafe
	hints    *hints
	stamps   Timestamps
	leader   *counterLeader
	batchlog *batchlog
	onError  func(error)
	guard    *guard.Guard // may be nil
	run      func(func())
	arriving func() bool // nil: never
	// confirmed says whether the metadata may be acted on without a request; nil: always.
	confirmed func() bool
	// What names this node's requests to others that must count once.
	incarnation uint64
	sequence    atomic.Uint64

	writes     sync.Pool // *writeOp
	reads      sync.Pool // *readOp
	buffers    sync.Pool // *[]byte
	writing    atomic.Int64
	writeBytes atomic.Int64
	reading    atomic.Int64
	sent       fence.Fence // what was sent to replicas, and changes them
	truncating truncating  // which truncations are under way

	peers  latency.Peers
	tables latency.Tables
	counts counters
}

// New makes a coordinator; it starts nothing but the replay of hints found in Options.Hints.
func New(o Options) *Coordinator {
	c := &Coordinator{
		view: o.View, replicas: o.Replicas, clock: o.Clock, localDC: o.LocalDatacenter,
		limits: o.Limits.withDefaults(), unsafe: o.Unsafe, onError: o.OnError, guard: o.Guard, run: o.Run, arriving: o.Arriving,
		confirmed: o.Confirmed,
	}
	if c.run == nil {
		c.run = func(f func()) { f() }
	}
	if c.stamps = o.Stamps; c.stamps == nil {
		c.stamps = env.NewHLC(o.Clock, time.Minute)
	}
	if c.incarnation = uint64(c.stamps.Next()); o.Rand != nil { // clocks can go back
		c.incarnation ^= o.Rand.Uint64()
	}
	c.leader = newCounterLeader(c)
	c.writes.New = func() any { return newWriteOp(c) }
	c.reads.New = func() any { return newReadOp(c) }
	c.buffers.New = func() any { return new([]byte) }
	if o.Hints != nil && !o.Unsafe.NoHints {
		c.hints = newHints(c, o.Hints, o.Rand)
	}
	c.batchlog = newBatchlog(c, o.Hints)
	return c
}

// Stats are counts since the start.
type Stats struct {
	WriteTimeouts, ReadTimeouts, Unavailable, Overloaded  uint64
	DigestMismatches, ReadRepairs, ShortReads, Speculated uint64
	Replans, Restamped                                    uint64
	HintsStored, HintsReplayed, HintsExpired, HintsLost   uint64
	BatchesStored, BatchesReplayed                        uint64
}

type counters struct {
	writeTimeouts, readTimeouts, unavailable, overloaded  atomic.Uint64
	digestMismatches, readRepairs, shortReads, speculated atomic.Uint64
	replans, restamped                                    atomic.Uint64
	hintsStored, hintsReplayed, hintsExpired, hintsLost   atomic.Uint64
	batchesStored, batchesReplayed                        atomic.Uint64
}

// Stats reads the counts.
func (c *Coordinator) Stats() Stats {
	n := &c.counts
	return Stats{
		WriteTimeouts: n.writeTimeouts.Load(), ReadTimeouts: n.readTimeouts.Load(),
		Unavailable: n.unavailable.Load(), Overloaded: n.overloaded.Load(),
		DigestMismatches: n.digestMismatches.Load(), ReadRepairs: n.readRepairs.Load(),
		ShortReads: n.shortReads.Load(), Speculated: n.speculated.Load(), Replans: n.replans.Load(), Restamped: n.restamped.Load(),
		HintsStored: n.hintsStored.Load(), HintsReplayed: n.hintsReplayed.Load(),
		HintsExpired: n.hintsExpired.Load(), HintsLost: n.hintsLost.Load(),
		BatchesStored: n.batchesStored.Load(), BatchesReplayed: n.batchesReplayed.Load(),
	}
}

// buffer is memory for an encoded request or a kept page; release gives it back.
func (c *Coordinator) buffer() *[]byte { return c.buffers.Get().(*[]byte) }

// bufferKept is the largest buffer worth keeping.
const bufferKept = 64 << 10

func (c *Coordinator) release(b *[]byte) {
	if cap(*b) <= bufferKept {
		*b = (*b)[:0]
		c.buffers.Put(b)
	}
}

// placementOf is who holds the token of a table in topology t. Keyspaces of LocalStrategy live on
// the node that is asked.
func (c *Coordinator) replicasOf(t *ring.Topology, table *schema.Table, token ring.Token) ring.ReplicaSet {
	return ReplicasOf(c.view.Self(), t, table, token)
}

// outdated says whether this node knows of a later change of the ring than what was planned at an epoch does: who was to
// answer may be no member any more.
func (c *Coordinator) outdated(epoch uint64) bool { return c.view.Topology().Moved() > epoch }

// onlySelf says whether this node alone holds the token of a table.
func (c *Coordinator) onlySelf(t *ring.Topology, table *schema.Table, token ring.Token) bool {
	return OnlySelf(c.view.Self(), t, table, token)
}

// remaining is what is left of a deadline, at least a millisecond so that a request can still fail
// in an orderly way.
func (c *Coordinator) remaining(deadline time.Duration) time.Duration {
	return max(deadline-c.clock.Monotonic(), time.Millisecond)
}

// patience is how long a replica's answer to a change is waited for, by a request that began and has a deadline (both monotonic):
// the time of the whole request, even if less is left of it. A truncation waits as long for what the network delays.
func (c *Coordinator) patience(began, deadline time.Duration) time.Duration {
	return max(deadline-began, time.Millisecond)
}

// mayReplay says whether hints and logged batches may be replayed: by the catalog and the ring of View some of them would
// be void, or go to other nodes.
func (c *Coordinator) mayReplay() bool { return c.confirmed == nil || c.confirmed() }

// report tells of a failure that no request waits for.
func (c *Coordinator) report(err error) {
	if c.onError != nil {
		c.onError(err)
	}
}

// sized is the bytes of mutations, for the bound.
func sized(mutations []*row.Mutation) (n int64) {
	for _, m := range mutations {
		n += int64(m.Size())
	}
	return n
}

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
	View            View
	Replicas        Replicas
	Clock           env.Clock
	Rand            env.Rand // of incarnations; nil means none
	LocalDatacenter string
	Limits          Limits
	Hints           Hints      // nil means that no hints are stored
	Store           LocalStore // keeps truncations; nil means that a restart forgets them
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

// Timestamps returns timestamps (µs since 1970), each greater than all before.
type Timestamps interface{ Next() int64 }

// Unsafe switches safeguards off, for the tests that show that they are needed.
type Unsafe struct {
	NoReadRepair bool // merge differing answers, but do not repair before answering
	NoShortRead  bool // do not continue reads that replicas' limits ended early
	NoReplan     bool // do not plan again when a replica refuses

	NoTruncationFence    bool // drop rows while writes from before are on their way
	RepairTruncated      bool // let reads repair while a table is truncated
	NoTruncationPrepared bool // make truncations that a dead coordinator sent long ago
	NoTruncationStreams  bool // let streams bring what was read before a truncation
	NoWriteOrder         bool // do not act on the table option write_ordering

	// StaleEpochs makes replicas take what was planned for an earlier ring; OneSided counts a write when
	// its level is met among the replicas of now alone, and votes likewise.
	StaleEpochs, OneSided bool
	// ReadOneSide makes reads ask the replicas of now alone while an operation is Switching.
	ReadOneSide bool
	// FilterVersions makes each of several replicas evaluate filters on static and regular columns of its own version.
	FilterVersions bool
}

// Coordinator takes requests to their replicas. Its methods may be called from any goroutine.
type Coordinator struct {
	view     View
	replicas Replicas
	clock    env.Clock
	localDC  string
	limits   Limits
	unsafe   Unsafe
	hints    Hints // nil means none
	store    LocalStore
	stamps   Timestamps
	onError  func(error)
	guard    *guard.Guard // may be nil
	arriving func() bool  // nil: never
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

// New returns a coordinator.
func New(o Options) *Coordinator {
	c := &Coordinator{
		view: o.View, replicas: o.Replicas, clock: o.Clock, localDC: o.LocalDatacenter,
		limits: o.Limits.withDefaults(), unsafe: o.Unsafe, onError: o.OnError, guard: o.Guard, arriving: o.Arriving,
		confirmed: o.Confirmed, hints: o.Hints,
	}
	if c.stamps = o.Stamps; c.stamps == nil {
		c.stamps = env.NewHLC(o.Clock, time.Minute)
	}
	if c.incarnation = uint64(c.stamps.Next()); o.Rand != nil { // clocks can go back
		c.incarnation ^= o.Rand.Uint64()
	}
	c.writes.New = func() any { return newWriteOp(c) }
	c.reads.New = func() any { return newReadOp(c) }
	c.buffers.New = func() any { return new([]byte) }
	c.store = o.Store
	c.loadTruncations()
	return c
}

// Stats are counts since the start.
type Stats struct {
	WriteTimeouts, ReadTimeouts, Unavailable, Overloaded  uint64
	DigestMismatches, ReadRepairs, ShortReads, Speculated uint64
	Replans, Restamped                                    uint64
}

type counters struct {
	writeTimeouts, readTimeouts, unavailable, overloaded  atomic.Uint64
	digestMismatches, readRepairs, shortReads, speculated atomic.Uint64
	replans, restamped                                    atomic.Uint64
}

// Stats reads the counts.
func (c *Coordinator) Stats() Stats {
	n := &c.counts
	return Stats{
		WriteTimeouts: n.writeTimeouts.Load(), ReadTimeouts: n.readTimeouts.Load(),
		Unavailable: n.unavailable.Load(), Overloaded: n.overloaded.Load(),
		DigestMismatches: n.digestMismatches.Load(), ReadRepairs: n.readRepairs.Load(),
		ShortReads: n.shortReads.Load(), Speculated: n.speculated.Load(), Replans: n.replans.Load(), Restamped: n.restamped.Load(),
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

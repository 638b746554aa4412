package coordinator

import (
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator/fence"
	"cqld/coordinator/latency"
	"cqld/coordinator/write"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Options are the dependencies of a Coordinator. View, Replicas and Clock are required.
type Options struct {
	View            View
	Replicas        Replicas
	Clock           env.Clock
	Rand            env.Rand // makes incarnations unique; nil means that the clock alone does
	LocalDatacenter string
	Limits          Limits
	Hints           Hints      // nil means that no hints are stored
	Store           LocalStore // stores truncations; nil means that a restart forgets them
	Stamps          Timestamps // nil means timestamps come from Clock and are not synchronized with peers
	// AwaitingFirstHeartbeat reports whether a node has just been admitted to the ring and has not sent its first
	// heartbeat; nil means never.
	AwaitingFirstHeartbeat func() bool
	// Confirmed reports whether View is at least as recent as the metadata that a majority of the cluster had
	// committed when this node started. Until then, hints and logged batches are not replayed. nil means that View is
	// always recent enough.
	Confirmed func() bool
	// OnError receives failures of background work, which no request waits for; nil means that they are ignored.
	OnError func(error)
	// Guard recovers panics of operations and ends these with an error; nil means that a panic continues.
	Guard *guard.Guard
}

// Timestamps returns increasing timestamps (µs since 1970).
type Timestamps interface{ Next() int64 }

// Coordinator executes requests at their replicas. Its methods may be called concurrently.
type Coordinator struct {
	view                   View
	replicas               Replicas
	clock                  env.Clock
	localDC                string
	limits                 Limits
	hints                  Hints // nil means none
	store                  LocalStore
	stamps                 Timestamps
	onError                func(error)
	guard                  *guard.Guard // may be nil
	awaitingFirstHeartbeat func() bool  // nil means never
	// confirmed reports whether background work may use the metadata; nil means always.
	confirmed func() bool
	// part of RequestID: identifies requests that other nodes must execute only once
	incarnation uint64
	sequence    atomic.Uint64

	writes     sync.Pool // *writeOp
	reads      sync.Pool // *readOp
	buffers    sync.Pool // *[]byte
	writing    atomic.Int64
	writeBytes atomic.Int64
	reading    atomic.Int64
	sent       fence.Fence // requests sent to replicas that change them
	truncating truncating  // truncations in progress

	peers  latency.Peers
	tables latency.Tables
	counts counters

	writeConfig write.Config
}

// New returns a coordinator.
func New(o Options) *Coordinator {
	c := &Coordinator{
		view: o.View, replicas: o.Replicas, clock: o.Clock, localDC: o.LocalDatacenter,
		limits: o.Limits.withDefaults(), onError: o.OnError, guard: o.Guard,
		awaitingFirstHeartbeat: o.AwaitingFirstHeartbeat,
		confirmed:              o.Confirmed, hints: o.Hints,
	}
	if c.stamps = o.Stamps; c.stamps == nil {
		c.stamps = env.NewHLC(o.Clock, time.Minute)
	}
	// A process must never reuse an incarnation: replicas would take its requests for duplicates of earlier ones.
	if c.incarnation = uint64(c.stamps.Next()); o.Rand != nil { // clocks can be set back
		c.incarnation ^= o.Rand.Uint64()
	}
	// Pooled operations keep their buffers and closures, so that a usual request allocates nothing.
	c.writes.New = func() any { return newWriteOp(c) }
	c.reads.New = func() any { return newReadOp(c) }
	c.buffers.New = func() any { return new([]byte) }
	c.store = o.Store
	// Shared by all writes, and not changed later.
	c.writeConfig = write.Config{
		View:                   o.View,
		LocalDatacenter:        o.LocalDatacenter,
		Replicas:               c.replicasOf,
		PlansMax:               c.limits.PlansMax,
		HintsKept:              o.Hints != nil,
		AwaitingFirstHeartbeat: o.AwaitingFirstHeartbeat,
		ArrivalPause:           ArrivalPause,
		ReplanPause:            ReplanPause,
	}
	if o.Hints != nil {
		c.writeConfig.SatisfyAny = o.Hints.SatisfyAny
	}
	// TruncationsKnown reports an error to OnError, and the next caller reads again.
	c.TruncationsKnown()
	return c
}

// Stats contains counts since the start.
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

// Stats returns the counts.
func (c *Coordinator) Stats() Stats {
	n := &c.counts
	return Stats{
		WriteTimeouts: n.writeTimeouts.Load(), ReadTimeouts: n.readTimeouts.Load(),
		Unavailable: n.unavailable.Load(), Overloaded: n.overloaded.Load(),
		DigestMismatches: n.digestMismatches.Load(), ReadRepairs: n.readRepairs.Load(),
		ShortReads: n.shortReads.Load(), Speculated: n.speculated.Load(), Replans: n.replans.Load(),
		Restamped: n.restamped.Load(),
	}
}

// buffer returns memory for an encoded request or a retained page; release returns it to the pool.
func (c *Coordinator) buffer() *[]byte { return c.buffers.Get().(*[]byte) }

// bufferKept is the size of the largest buffer that is reused.
const bufferKept = 64 << 10

// release returns a buffer to the pool. The caller must not use the buffer or its bytes afterwards.
func (c *Coordinator) release(b *[]byte) {
	// A large buffer would stay in the pool for small requests.
	if cap(*b) <= bufferKept {
		*b = (*b)[:0]
		c.buffers.Put(b)
	}
}

// replicasOf returns the replicas of a token of a table in topology t. The replica of a keyspace of LocalStrategy is
// this node.
func (c *Coordinator) replicasOf(t *ring.Topology, table *schema.Table, token ring.Token) ring.ReplicaSet {
	return ReplicasOf(c.view.Self(), t, table, token)
}

// outdated reports whether this node knows of a later ring change than a plan made at epoch: replicas of the plan may
// have left the ring.
func (c *Coordinator) outdated(epoch uint64) bool { return c.view.Topology().Moved() > epoch }

// Remaining returns the time until a monotonic deadline, but at least a millisecond.
func (c *Coordinator) Remaining(deadline time.Duration) time.Duration {
	// A request past its deadline is still sent, and then times out like any other: callers need no second error
	// path.
	return max(deadline-c.clock.Monotonic(), time.Millisecond)
}

// changeTimeout returns how long to wait for a replica's answer to a change, for a request that began at began and has
// a deadline (both monotonic): the whole timeout, even if less is left. A truncation waits as long for messages that
// the network delays.
func (c *Coordinator) changeTimeout(began, deadline time.Duration) time.Duration {
	return max(deadline-began, time.Millisecond)
}

// report passes a failure for which no request waits to OnError.
func (c *Coordinator) report(err error) {
	if c.onError != nil {
		c.onError(err)
	}
}

// sized returns the size of mutations in bytes, as WriteBytesInFlight counts it.
func sized(mutations []*row.Mutation) (n int64) {
	for _, m := range mutations {
		n += int64(m.Size())
	}
	return n
}

package paxos

import (
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/coordinator/latency"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/paxos/contention"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Coordinator executes the ordinary reads and writes of a Proposer. *coordinator.Coordinator implements it.
type Coordinator interface {
	Read(req *coordinator.ReadRequest, done func(page []byte, err error))
	Write(req *coordinator.WriteRequest, done func(error))
	MayArrive(err error, deadline time.Duration) bool
}

// Options are the dependencies of a Proposer. View, Acceptors, Coordinator, Clock and Stamps are required.
type Options struct {
	View        coordinator.View
	Acceptors   Acceptors
	Coordinator Coordinator
	Clock       env.Clock
	// Stamps are the node's timestamps: ballots are drawn from them.
	Stamps          coordinator.Timestamps
	Rand            env.Rand // jitter of the pauses between attempts; nil means none
	LocalDatacenter string
	Limits          Limits
	Unsafe          Unsafe
	// Guard ends rounds and conditions that panic with an error. nil lets a panic through.
	Guard *guard.Guard
}

// Unsafe switches safeguards off, for tests that show that they are needed.
type Unsafe struct {
	NoRepair  bool // do not finish, or make void, what other proposers began
	NoPersist bool // acceptors forget what they promised and accepted when they stop
	QuorumOne bool // one vote decides
	Unsynced  bool // acceptors answer before what they promised and accepted is synced
	// NoPrevious makes acceptors take a proposal without promises, whatever they have promised or accepted since.
	NoPrevious bool
	// NoLowBound makes acceptors take proposals from before what they have purged.
	NoLowBound bool
	// NoLookup answers a change in doubt as unknown when something later was decided, or a vote failed.
	NoLookup bool
	// NoArbiter lets proposers that change one partition outvote each other; it is slower, not wrong.
	NoArbiter bool
	// OneSided counts votes among the present replicas alone while the ring changes.
	OneSided bool
}

// Proposer executes conditional changes and serial reads. Its methods may be called concurrently.
type Proposer struct {
	view        coordinator.View
	acceptors   Acceptors
	coordinator Coordinator
	clock       env.Clock
	stamps      coordinator.Timestamps
	localDC     string
	limits      Limits
	unsafe      Unsafe
	guard       *guard.Guard // may be nil

	lastBallot atomic.Int64
	queues     queues
	// lastBallots are of this process: a restart forgets them.
	lastBallots *lastBallots
	contested   contention.Contested
	turns       *contention.Home
	arbiters    contention.Arbiters
	trips       latency.Average // of requests to a quorum and back
	chances     struct {
		sync.Mutex
		rand env.Rand
	}
	counts counters
}

// NewProposer makes a Proposer. It starts nothing.
func NewProposer(o Options) *Proposer {
	c := &Proposer{
		view: o.View, acceptors: o.Acceptors, coordinator: o.Coordinator, clock: o.Clock, stamps: o.Stamps, localDC: o.LocalDatacenter,
		limits: o.Limits.withDefaults(), unsafe: o.Unsafe, guard: o.Guard,
	}
	c.lastBallots = newLastBallots(c.limits.LastBallots)
	c.turns = contention.NewHome(c.clock, func(node ring.NodeID) bool { return node == c.view.Self() || c.view.Alive(node) })
	c.chances.rand = o.Rand
	return c
}

// chance returns a random number; 0 without Options.Rand.
func (c *Proposer) chance() uint64 {
	c.chances.Lock()
	defer c.chances.Unlock()
	if c.chances.rand == nil {
		return 0
	}
	return c.chances.rand.Uint64()
}

// replicasOf returns the replicas of a token of a table in topology t.
func (c *Proposer) replicasOf(t *ring.Topology, table *schema.Table, token ring.Token) ring.ReplicaSet {
	return coordinator.ReplicasOf(c.view.Self(), t, table, token)
}

// outdated reports whether this node's topology is newer than a plan of the epoch.
func (c *Proposer) outdated(epoch uint64) bool { return c.view.Topology().Moved() > epoch }

// CASRequest is a conditional change of one partition.
type CASRequest struct {
	// Command reads what the condition and the answer need; it must not change until done is called.
	Command *row.ReadCommand
	// Serial is who votes: SERIAL or LOCAL_SERIAL, or ALL, of which every replica must agree. Consistency is who
	// must have the result.
	Serial, Consistency ring.Consistency
	// Contention is how long to try when others are ahead; Timeout how long to wait for replicas.
	Contention, Timeout time.Duration
	// Update is asked, with what a quorum holds and what others change first in the same round, for the
	// change to be made at the timestamp, or says that the condition does not apply. timestamp and
	// timestamp-1 are its own. It may be asked several times, must not block, and the page is valid
	// until it returns. The mutation must not change after that. An attempt that others outvote may have
	// read while their changes reached the replicas: what it shows comes to nothing.
	Update func(page []byte, timestamp int64) (m *row.Mutation, applies bool, err error)
	Trace  coordinator.Trace
	// Cancel ends the waiting for others, before anything is proposed, with env.ErrCanceled; nil: nothing does.
	Cancel *env.Cancel
}

// ballot is a new ballot of this node. The span of stamps that ends with it is after seen and nobody
// else's on this node.
func (c *Proposer) ballot(seen, span int64) Ballot {
	now := c.stamps.Next()
	for {
		last := c.lastBallot.Load()
		next := max(now, seen+span, last+span)
		if c.lastBallot.CompareAndSwap(last, next) {
			return Ballot{Micros: next, Node: c.view.Self()}
		}
	}
}

// electorate is who votes on a partition's proposals: the replicas, or at LOCAL_SERIAL those of this
// data center, and those that are becoming one.
type electorate struct {
	natural, pending []ring.NodeID
	// others must each agree by majority, too: the replicas before or after a change of the ring.
	others [][]ring.NodeID
}

func (c *Proposer) electorateOf(t *ring.Topology, table *schema.Table, token ring.Token, serial ring.Consistency) electorate {
	set := c.replicasOf(t, table, token)
	if c.unsafe.OneSided {
		set.Others = nil
	}
	if serial != ring.LocalSerial || table.Replication.Class == ring.Local {
		return electorate{set.Natural, set.Pending, set.Others}
	}
	near := func(nodes []ring.NodeID) (out []ring.NodeID) {
		for _, id := range nodes {
			if n := t.Node(id); n != nil && n.Datacenter == c.localDC {
				out = append(out, id)
			}
		}
		return out
	}
	e := electorate{natural: near(set.Natural), pending: near(set.Pending)}
	for _, others := range set.Others {
		e.others = append(e.others, near(others))
	}
	return e
}

// required is how many of the natural voters decide.
func (e electorate) required() int { return ring.QuorumOf(len(e.natural)) }

// plainLevel is the level of ordinary requests that meets every quorum of a serial one.
func plainLevel(serial ring.Consistency) ring.Consistency {
	switch serial {
	case ring.LocalSerial:
		return ring.LocalQuorum
	case ring.All:
		return ring.All
	}
	return ring.Quorum
}

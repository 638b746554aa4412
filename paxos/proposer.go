package paxos

import (
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/coordinator/latency"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Coordinator executes the ordinary reads and writes of a Proposer. *coordinator.Coordinator implements it.
type Coordinator interface {
	Read(req *coordinator.ReadRequest, done func(page []byte, err error))
	Write(req *coordinator.WriteRequest, done func(error))
	Available(m *row.Mutation, level ring.Consistency) error
	MayArrive(err error, deadline time.Duration) bool
}

// Options are the dependencies of a Proposer. View, Acceptors, Arbiters, Coordinator, Clock and Stamps are required.
type Options struct {
	View        coordinator.View
	Acceptors   Acceptors
	Arbiters    Arbiters // of other nodes
	Coordinator Coordinator
	Clock       env.Clock
	// Stamps are the node's timestamps: ballots are drawn from them.
	Stamps          coordinator.Timestamps
	Rand            env.Rand // jitter of the pauses between attempts; nil means none
	LocalDatacenter string
	Limits          Limits
	// Guard recovers panics of rounds and conditions, which then fail with an error. nil means that a panic
	// continues.
	Guard *guard.Guard
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
	guard       *guard.Guard // may be nil

	lastBallot atomic.Int64
	queues     queues
	// lastBallots is in memory only: a restart loses it.
	lastBallots *lastBallots
	contested   contention.Contested
	arbiter     *contention.Arbiter // of partitions whose first live replica is this node
	arbiters    Arbiters            // of other nodes
	responsive  contention.Arbiters // which arbiters respond, and how fast
	trips       latency.Average     // round-trip time of requests to a quorum
	chances     struct {
		sync.Mutex
		rand env.Rand
	}
	counts counters
	// alarmed delivers an alarm. It is a value, because the compiler then sees that a step does not call deliver, and
	// keeps the effects on the stack.
	alarmed func(r *round, number int)
}

// NewProposer returns a Proposer. It starts no goroutine.
func NewProposer(o Options) *Proposer {
	c := &Proposer{
		view: o.View, acceptors: o.Acceptors, arbiters: o.Arbiters, coordinator: o.Coordinator,
		clock: o.Clock, stamps: o.Stamps, localDC: o.LocalDatacenter,
		limits: o.Limits.withDefaults(), guard: o.Guard,
	}
	c.lastBallots = newLastBallots(c.limits.LastBallots)
	c.arbiter = contention.NewArbiter(c.clock, func(node ring.NodeID) bool {
		return node == c.view.Self() || c.view.Alive(node)
	})
	// chances has a lock, because rounds of different partitions draw from it concurrently.
	c.chances.rand = o.Rand
	c.alarmed = func(r *round, number int) { r.deliver(&event{kind: eventAlarm, alarm: number}) }
	return c
}

// Arbiter returns this node's arbiter, for contention.Serve.
func (c *Proposer) Arbiter() *contention.Arbiter { return c.arbiter }

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
	// Command reads the rows for the condition and the answer; it must not change until done is called.
	Command *row.ReadCommand
	// Serial is the level of the votes: SERIAL, LOCAL_SERIAL, or ALL, which requires every replica. Consistency is the
	// level of the commit.
	Serial, Consistency ring.Consistency
	// Contention limits the time of attempts while other proposers are ahead; Timeout limits the wait for replicas.
	Contention, Timeout time.Duration
	// Update evaluates the condition on the page, which contains the rows at a quorum and the changes of earlier
	// members of the round. It returns the change with the given timestamp, or reports that the condition does not
	// apply. timestamp and timestamp-1 are reserved for this change. Update may be called several times, must not
	// block, and must not retain the page. The mutation must not change afterwards. An attempt that other proposers
	// outvote may have read while their changes were reaching the replicas; its result is discarded.
	Update func(page []byte, timestamp int64) (m *row.Mutation, applies bool, err error)
	Trace  coordinator.Trace
	// Cancel ends the request with env.ErrCanceled as long as nothing was proposed for it; nil means that it cannot
	// be canceled.
	Cancel *env.Cancel
}

// ballot returns a new ballot of this node. The span of timestamps that ends with it is after seen, and no other
// request of this node uses it.
func (c *Proposer) ballot(seen, span int64) ballot.Ballot {
	now := c.stamps.Next()
	for {
		last := c.lastBallot.Load()
		// The timestamps of a round are the span up to its ballot. They must be after what acceptors have seen and
		// after every span that this node has used, for any partition.
		next := max(now, seen+span, last+span)
		// The swap fails if another round has drawn a ballot meanwhile.
		if c.lastBallot.CompareAndSwap(last, next) {
			return ballot.Ballot{Micros: next, Node: c.view.Self()}
		}
	}
}

// electorate contains the voters on a partition's proposals: the replicas, or at LOCAL_SERIAL those of this data
// center, including pending replicas.
type electorate struct {
	natural, pending []ring.NodeID
	// others are further replica sets of which a majority must agree: the replicas before or after a change of the
	// ring.
	others [][]ring.NodeID
}

// electorateOf returns the voters on a token of a table in topology t, at a serial level.
func (c *Proposer) electorateOf(t *ring.Topology, table *schema.Table, token ring.Token,
	serial ring.Consistency) electorate {
	set := c.replicasOf(t, table, token)
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

// required returns the number of natural voters that form a quorum.
func (e electorate) required() int { return ring.QuorumOf(len(e.natural)) }

// plainLevel returns the level of ordinary requests that overlaps with every quorum of a serial level.
func plainLevel(serial ring.Consistency) ring.Consistency {
	switch serial {
	case ring.LocalSerial:
		return ring.LocalQuorum
	case ring.All:
		return ring.All
	}
	return ring.Quorum
}

package coordinator

import (
	"errors"
	"math"
	"sync"
	"time"

	"cqld/coordinator/latency"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Timestamps gives stamps (µs), each greater than any it gave before.
type Timestamps interface{ Next() int64 }

// RequestID names one request among all: who asks, in which life, and the how manieth. A leader that
// has seen a counter update does not count it again. Node zero is no name: the request did not travel.
type RequestID struct {
	Node        ring.NodeID
	Incarnation uint64
	Sequence    uint64
}

// CounterUpdate is a change of one partition of a counter table on its way to the replica that leads
// it. The values of its counter cells are what is to be added.
type CounterUpdate struct {
	ID          RequestID
	Epoch       uint64 // of the topology it was planned with
	Consistency ring.Consistency
	Mutation    *row.Mutation
	Trace       Trace // of this node; it is not sent
}

// CounterReplica is a Replica of another node that can be asked to lead an update there. The errors
// of done are those that Coordinator.Lead gave, or what became of the messages.
type CounterReplica interface {
	Lead(update *CounterUpdate, timeout time.Duration, done func(error))
}

// Count changes counters: the counter cells of the mutations, which are of counter tables, hold what
// is to be added; deletions are as everywhere. Each mutation is led by one of its replicas, which
// knows the sum so far of all that it has led (its shard), and gives the other replicas the new sum,
// not the addition: so applying it twice is applying it once. An update is never tried again once it
// may have been counted.
func (c *Coordinator) Count(req *WriteRequest, done func(error)) {
	if len(req.Mutations) == 1 {
		c.count(req, req.Mutations[0], done)
		return
	}
	j := &joint{left: len(req.Mutations), done: done}
	if j.left == 0 {
		done(nil)
	}
	for _, m := range req.Mutations {
		c.count(req, m, j.answered)
	}
}

// joint waits for several and tells the first error.
type joint struct {
	mu   sync.Mutex
	left int
	err  error
	done func(error)
}

func (j *joint) answered(err error) {
	j.mu.Lock()
	j.left--
	// What was certainly not done is no answer for a batch of which other parts may have been.
	if err != nil && (j.err == nil || errors.Is(j.err, ErrNotSent)) {
		j.err = err
	}
	last, err := j.left == 0, j.err
	j.mu.Unlock()
	if last {
		j.done(err)
	}
}

// counterOp is one partition's update under way, where the client asked for it.
type counterOp struct {
	c        *Coordinator
	update   CounterUpdate
	table    *schema.Table
	trace    Trace
	deadline time.Duration
	size     int64
	mu       sync.Mutex
	done     func(error) // nil once called
	timer    env.Timer
	plans    int
	tried    []ring.NodeID // of the present plan: they certainly did nothing
	refused  bool          // one of them said that it is not a replica
}

// count asks a replica to lead the update m.
func (c *Coordinator) count(req *WriteRequest, m *row.Mutation, done func(error)) {
	op := &counterOp{c: c, trace: req.Trace, deadline: c.clock.Monotonic() + req.Timeout, size: int64(m.Size()) + writeOpBytes, done: done}
	op.update = CounterUpdate{Consistency: req.Consistency, Mutation: m, Trace: req.Trace}
	if op.table = c.view.Schema().TableByStorage(m.Table); op.table == nil {
		done(&UnknownTable{Table: m.Table})
		return
	}
	if err := c.reserve(op.size); err != nil {
		done(err)
		return
	}
	timer := c.clock.After(req.Timeout, op.timeout)
	op.mu.Lock()
	op.timer = timer
	op.mu.Unlock()
	op.plan()
}

// reserve admits size bytes of one more write, or refuses; giveBack ends it.
func (c *Coordinator) reserve(size int64) error {
	if n := c.writing.Add(1); n > c.limits.WritesInFlight {
		c.writing.Add(-1)
		c.counts.overloaded.Add(1)
		return &Overloaded{What: "too many writes in flight"}
	}
	if n := c.writeBytes.Add(size); n > c.limits.WriteBytesInFlight && n > size {
		c.giveBack(size)
		c.counts.overloaded.Add(1)
		return &Overloaded{What: "too many bytes of writes in flight"}
	}
	return nil
}

func (c *Coordinator) giveBack(size int64) {
	c.writing.Add(-1)
	c.writeBytes.Add(-size)
}

// plan picks the leader at the present topology and asks it.
func (op *counterOp) plan() {
	c := op.c
	topology, self := c.view.Topology(), c.view.Self()
	leader, ok := op.leader(topology)
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	if !ok {
		op.mu.Unlock()
		op.unled(topology)
		return
	}
	op.tried = append(op.tried, leader)
	// Every asking has a name of its own: one that was refused may come again where it is welcome.
	op.update.ID, op.update.Epoch = RequestID{}, topology.Epoch()
	if leader != self {
		op.update.ID = RequestID{Node: self, Incarnation: c.incarnation, Sequence: c.sequence.Add(1)}
	}
	update := op.update
	op.mu.Unlock()
	timeout := c.remaining(op.deadline)
	if leader == self {
		trace(op.trace, leader, "Leading counter update")
		c.Lead(&update, LeaderTimeout(timeout), op.answer)
		return
	}
	traceNode(op.trace, self, "Enqueuing counter update to", leader)
	remote, isRemote := c.replica(leader, op.trace).(CounterReplica)
	if !isRemote {
		op.answer(&ReplicaFailure{Message: "the replica does not lead counters"})
		return
	}
	remote.Lead(&update, timeout, op.answer)
}

// LeaderTimeout is how long a leader may take of the time that its coordinator has: so it can still
// say in time how many have answered.
func LeaderTimeout(timeout time.Duration) time.Duration { return timeout - timeout/16 }

// leader is this node when it is a replica, or else the nearest live one that was not asked yet.
func (op *counterOp) leader(t *ring.Topology) (best ring.NodeID, found bool) {
	c, now, least := op.c, op.c.clock.Monotonic(), int64(math.MaxInt64)
	for _, node := range c.replicasOf(t, op.table, op.update.Mutation.Key.Token).Natural {
		if op.wasTried(node) || node != c.view.Self() && !c.view.Alive(node) {
			continue
		}
		local := false
		if n := t.Node(node); n != nil {
			local = n.Datacenter == c.localDC
		}
		rank := int64(c.peers.Of(node, now) / latency.Step)
		switch level := op.update.Consistency; {
		case node == c.view.Self():
			rank = -1
		case !local && level.IsLocal() && op.table.Replication.Class == ring.NetworkTopology:
			continue
		case !local:
			rank += math.MaxInt32
		}
		if rank < least {
			best, least, found = node, rank, true
		}
	}
	return best, found
}

func (op *counterOp) wasTried(node ring.NodeID) bool {
	for _, n := range op.tried {
		if n == node {
			return true
		}
	}
	return false
}

// unled is told that there is nobody (else) to ask; nothing was done so far. Replicas that refuse
// know of another topology, which this node will know soon.
func (op *counterOp) unled(t *ring.Topology) {
	c := op.c
	op.mu.Lock()
	again := op.refused && op.plans+1 < c.limits.PlansMax && !c.unsafe.NoReplan
	pause := replanPause << op.plans
	op.plans++
	op.tried, op.refused = op.tried[:0], false
	op.mu.Unlock()
	if again {
		c.counts.replans.Add(1)
		c.clock.After(pause, op.plan)
		return
	}
	c.counts.unavailable.Add(1)
	op.conclude(&Unavailable{Consistency: op.update.Consistency,
		Required: op.update.Consistency.BlockFor(op.table.Replication, c.localDC)})
}

// answer is the event of the leader's answer.
func (op *counterOp) answer(err error) {
	var refusal *NotReplica
	var unavailable *Unavailable
	var overloaded *Overloaded
	var timeout *WriteTimeout
	var failure *WriteFailure
	var replica *ReplicaFailure
	level := op.update.Consistency
	blockFor := level.BlockFor(op.table.Replication, op.c.localDC)
	switch {
	case err != nil && op.c.waits(err, op.deadline):
		op.mu.Lock()
		op.tried = op.tried[:0]
		op.mu.Unlock()
		op.c.clock.After(arrivalPause, op.plan)
	case err == nil, errors.As(err, &unavailable), errors.As(err, &overloaded), errors.As(err, &timeout), errors.As(err, &failure):
		op.conclude(err)
	case errors.Is(err, ErrNotSent):
		op.mu.Lock()
		op.refused = op.refused || errors.As(err, &refusal)
		op.mu.Unlock()
		op.plan()
	case errors.As(err, &replica):
		node := op.tried[len(op.tried)-1]
		op.conclude(&WriteFailure{Consistency: level, BlockFor: blockFor, Type: WriteCounter,
			Failures: []NodeFailure{{Node: node, Reason: replica.Reason}}})
	default:
		op.c.counts.writeTimeouts.Add(1)
		op.conclude(&WriteTimeout{Consistency: level, BlockFor: blockFor, Type: WriteCounter})
	}
}

// timeout is the event of the deadline.
func (op *counterOp) timeout() {
	op.c.counts.writeTimeouts.Add(1)
	level := op.update.Consistency
	op.conclude(&WriteTimeout{Consistency: level, BlockFor: level.BlockFor(op.table.Replication, op.c.localDC), Type: WriteCounter})
}

// conclude answers the client, once.
func (op *counterOp) conclude(err error) {
	op.mu.Lock()
	done, timer := op.done, op.timer
	op.done = nil
	op.mu.Unlock()
	if done == nil {
		return
	}
	if timer != nil {
		timer.Stop()
	}
	op.c.giveBack(op.size)
	done(err)
}

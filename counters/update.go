package counters

import (
	"errors"
	"math"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Update is a change of one partition of a counter table, to be executed by the replica that leads it. The values of
// its counter cells are added to the counters.
type Update struct {
	ID          coordinator.RequestID
	Epoch       uint64 // of the topology with which it was planned
	Consistency ring.Consistency
	Mutation    *row.Mutation
	Trace       coordinator.Trace // of this node; it is not sent
	observed    bool              // the node that sent the update wants to know what the leader reads
	blocks      bool              // the goroutine that calls Lead may block on the disk; it is not sent
}

// Update changes counters. The counter cells of the mutations contain the additions; deletions are ordinary ones. All
// tables are counter tables. One replica leads each mutation. It knows the sum of all additions that it has led (its
// shard), and sends the new sum to the other replicas, not the addition, so that applying it is idempotent. An update
// that may have been counted is not retried.
func (c *Counters) Update(req *coordinator.WriteRequest, done func(error)) {
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

// joint waits for several updates and returns the first error.
type joint struct {
	mu   sync.Mutex
	left int
	err  error
	done func(error)
}

func (j *joint) answered(err error) {
	if last, err := j.count(err); last {
		j.done(err)
	}
}

// count counts an answer. It returns whether it is the last one, and then the outcome of all.
func (j *joint) count(err error) (last bool, outcome error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	invariant.Check(j.left > 0, "counter: more answers than updates")
	j.left--
	// ErrNotSent would be wrong for a batch of which other parts may have been applied.
	if err != nil && (j.err == nil || errors.Is(j.err, coordinator.ErrNotSent)) {
		j.err = err
	}
	return j.left == 0, j.err
}

// updateOp is the update of one partition at its coordinator.
type updateOp struct {
	c        *Counters
	update   Update
	table    *schema.Table
	trace    coordinator.Trace
	deadline time.Duration
	size     int64
	mu       sync.Mutex
	done     func(error) // nil after it was called
	timer    env.Timer
	plans    int
	tried    []ring.NodeID // in the present plan: they certainly did nothing
	refused  bool          // a node responded that it is not a replica
}

// count asks a replica to lead m.
func (c *Counters) count(req *coordinator.WriteRequest, m *row.Mutation, done func(error)) {
	op := &updateOp{c: c, trace: req.Trace, deadline: c.clock.Monotonic() + req.Timeout,
		size: coordinator.WriteSize(m), done: done}
	op.update = Update{Consistency: req.Consistency, Mutation: m, Trace: req.Trace, blocks: req.Blocks}
	if op.table = c.view.Schema().TableByStorage(m.Table); op.table == nil {
		done(&coordinator.UnknownTable{Table: m.Table})
		return
	}
	if err := c.c.Reserve(op.size); err != nil {
		done(err)
		return
	}
	timer := c.clock.After(req.Timeout, op.timeout)
	op.mu.Lock()
	op.timer = timer
	op.mu.Unlock()
	op.plan()
}

// plan selects the leader in the present topology and sends it the update.
func (op *updateOp) plan() {
	c := op.c
	topology, self := c.view.Topology(), c.view.Self()
	leader, ok := op.leader(topology)
	if !ok {
		op.unled()
		return
	}
	update, open := op.request(leader, topology.Epoch())
	if !open {
		return
	}
	timeout := c.c.Remaining(op.deadline)
	if leader == self {
		coordinator.AddTrace(op.trace, leader, "Leading counter update")
		c.Lead(&update, LeaderTimeout(timeout), op.answer)
		return
	}
	coordinator.AddNodeTrace(op.trace, self, "Enqueuing counter update to", leader)
	c.leaders.Lead(leader, &update, timeout, op.answer)
}

// request returns the update for a leader. open is false when the update has an outcome already.
func (op *updateOp) request(leader ring.NodeID, epoch uint64) (update Update, open bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.done == nil {
		return Update{}, false
	}
	invariant.Check(!op.wasTried(leader), "counter: a plan asks a node twice")
	invariant.Check(epoch >= op.update.Epoch, "counter: a plan is older than the one before")
	op.tried = append(op.tried, leader)
	// Every request has its own ID: an update that a node refused may be sent to it again after a new plan.
	op.update.ID, op.update.Epoch = coordinator.RequestID{}, epoch
	if leader != op.c.view.Self() {
		op.update.ID = op.c.c.NextRequestID()
	}
	update = op.update
	op.update.blocks = false // later plans are events of other goroutines
	return update, true
}

// LeaderTimeout returns how much of the coordinator's time a leader may use, so that it can still report in time how
// many replicas have answered.
func LeaderTimeout(timeout time.Duration) time.Duration { return timeout - timeout/16 }

// leader returns this node if it is a replica, or else the nearest live replica that was not asked yet.
func (op *updateOp) leader(t *ring.Topology) (best ring.NodeID, found bool) {
	c, least := op.c, int64(math.MaxInt64)
	for _, node := range coordinator.ReplicasOf(c.view.Self(), t, op.table, op.update.Mutation.Key.Token).Natural {
		if op.wasTried(node) || node != c.view.Self() && !c.view.Alive(node) {
			continue
		}
		local := false
		if n := t.Node(node); n != nil {
			local = n.Datacenter == c.localDC
		}
		rank := c.c.LatencyRank(node)
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

func (op *updateOp) wasTried(node ring.NodeID) bool {
	for _, n := range op.tried {
		if n == node {
			return true
		}
	}
	return false
}

// unled is called when no (further) replica can lead the update; nothing was done so far. Replicas that refuse know a
// different topology, which this node will know soon.
func (op *updateOp) unled() {
	c := op.c
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	again := op.refused && c.c.MayReplan(op.plans+1)
	pause := coordinator.ReplanPause << op.plans
	op.plans++
	op.tried, op.refused = op.tried[:0], false
	op.mu.Unlock()
	if again {
		c.c.Note(coordinator.EventReplan)
		c.clock.After(pause, op.plan)
		return
	}
	c.c.Note(coordinator.EventUnavailable)
	op.conclude(&coordinator.Unavailable{Consistency: op.update.Consistency,
		Required: op.update.Consistency.BlockFor(op.table.Replication, c.localDC)})
}

// answer is the event of the leader's answer.
func (op *updateOp) answer(err error) {
	if err == nil { // before the variables that errors.As lets escape
		op.conclude(nil)
		return
	}
	var refusal *coordinator.NotReplica
	var unavailable *coordinator.Unavailable
	var overloaded *coordinator.Overloaded
	var timeout *coordinator.WriteTimeout
	var failure *coordinator.WriteFailure
	var replica *coordinator.ReplicaFailure
	level := op.update.Consistency
	blockFor := level.BlockFor(op.table.Replication, op.c.localDC)
	switch {
	case op.c.c.MayArrive(err, op.deadline):
		op.mu.Lock()
		op.tried = op.tried[:0]
		op.mu.Unlock()
		op.c.clock.After(coordinator.ArrivalPause, op.plan)
	case errors.As(err, &unavailable), errors.As(err, &overloaded), errors.As(err, &timeout), errors.As(err, &failure):
		op.conclude(err)
	case errors.Is(err, coordinator.ErrNotSent):
		op.mu.Lock()
		op.refused = op.refused || errors.As(err, &refusal)
		op.mu.Unlock()
		op.plan()
	case errors.As(err, &replica):
		node := op.tried[len(op.tried)-1]
		op.conclude(&coordinator.WriteFailure{Consistency: level, BlockFor: blockFor, Type: coordinator.WriteCounter,
			Failures: []coordinator.NodeFailure{{Node: node, Reason: replica.Reason}}})
	default:
		op.c.c.Note(coordinator.EventWriteTimeout)
		op.conclude(&coordinator.WriteTimeout{Consistency: level, BlockFor: blockFor, Type: coordinator.WriteCounter})
	}
}

// timeout is the event of the deadline.
func (op *updateOp) timeout() {
	op.c.c.Note(coordinator.EventWriteTimeout)
	level := op.update.Consistency
	op.conclude(&coordinator.WriteTimeout{Consistency: level,
		BlockFor: level.BlockFor(op.table.Replication, op.c.localDC), Type: coordinator.WriteCounter})
}

// conclude answers the client, once.
func (op *updateOp) conclude(err error) {
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
	op.c.c.Release(op.size)
	done(err)
}

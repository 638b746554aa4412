package counters

import (
	"errors"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
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
	// The usual case needs no joint.
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

// count asks a replica to lead m.
func (c *Counters) count(req *coordinator.WriteRequest, m *row.Mutation, done func(error)) {
	table := c.view.Schema().TableByStorage(m.Table)
	if table == nil {
		done(&coordinator.UnknownTable{Table: m.Table})
		return
	}
	size := coordinator.WriteSize(m)
	if err := c.c.Reserve(size); err != nil {
		done(err)
		return
	}
	// From here on, the operation releases the reservation.
	op := &updateOp{c: c, mutation: m, trace: req.Trace, blocks: req.Blocks, size: size, done: done}
	op.onTimeout = func() { op.deliver(&updateEvent{kind: updateTicked}) }
	op.machine.init(c, table, req.Consistency, m.Key.Token)
	op.deliver(&updateEvent{kind: updateBegun, after: req.Timeout})
}

// LeaderTimeout returns how much of the coordinator's time a leader may use, so that it can still report in time how
// many replicas have answered.
func LeaderTimeout(timeout time.Duration) time.Duration {
	// One sixteenth is left for the answer: 60 ms of the usual second.
	return timeout - timeout/16
}

// joint waits for several updates and returns the first error.
type joint struct {
	mu   sync.Mutex
	left int
	err  error
	done func(error)
}

// answered handles the outcome of an update, and calls done after the last one.
func (j *joint) answered(err error) {
	// done is called without the lock, because it may start the client's next request.
	if last, err := j.count(err); last {
		j.done(err)
	}
}

// count counts an answer. last reports whether it is the last one; err is then the outcome of all.
func (j *joint) count(err error) (last bool, outcome error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	invariant.Check(j.left > 0, "counter: more answers than updates")
	j.left--
	// ErrNotSent would be wrong for a batch whose other parts may have been applied.
	if err != nil && (j.err == nil || errors.Is(j.err, coordinator.ErrNotSent)) {
		j.err = err
	}
	return j.left == 0, j.err
}

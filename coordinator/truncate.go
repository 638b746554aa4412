package coordinator

import (
	"errors"
	"slices"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/schema"
)

// Truncation is one TRUNCATE of a table. Nodes that move data know it by its ID: a stream brings nothing from a node that
// has not made a truncation which the receiver has made.
type Truncation struct {
	Table schema.StorageID
	ID    uint64
	// Prepare asks a node only to make void what it keeps for others, and to wait for what it has sent. A node truncates
	// only what it was asked to prepare before, in the time that the request to prepare gave, and not after another
	// truncation that was prepared later: what a coordinator sent before it died cannot remove later writes.
	Prepare bool
}

// Truncate drops all rows of the table, and the hints and logged batches for it, on every node. All nodes that hold some
// of its rows must live, because a node that missed it would bring its rows back. While the ring changes, all members
// must live: any of them may be the source of a range. Members that hold nothing are asked when they live: they may have
// hints.
func (c *Coordinator) Truncate(table *schema.Table, timeout time.Duration, done func(error)) {
	now := c.clock.Monotonic()
	op := &truncateOp{c: c, table: table, deadline: now + timeout, done: done,
		truncation: Truncation{Table: table.StorageID, ID: c.truncationID(), Prepare: true}}
	op.begin()
}

// truncationID is an ID that no other truncation has.
func (c *Coordinator) truncationID() uint64 {
	return uint64(c.stamps.Next())<<10 | uint64(c.view.Self()&1023)
}

// truncateOp asks all nodes to prepare, and then to drop their rows: a write that ended before the truncation began does not
// come to a replica after it. It asks all of them again when the ring has changed meanwhile: a node that gains a range is
// asked too, before it has anything.
type truncateOp struct {
	c          *Coordinator
	table      *schema.Table
	truncation Truncation
	deadline   time.Duration

	mu      sync.Mutex
	plan    int           // answers to earlier ones are ignored
	waiting []ring.NodeID // for their answers
	refused bool          // by a node that knows of a later ring, or of another truncation
	void    bool          // by one that knows of another truncation
	done    func(error)   // nil once called
	timer   env.Timer
}

// begin asks by the present topology.
func (op *truncateOp) begin() {
	c := op.c
	t := c.view.Topology()
	required, nodes := c.truncates(op.table, t)
	alive := 0
	for _, n := range required {
		if c.believes(n) {
			alive++
		}
	}
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	if alive < len(required) {
		c.counts.unavailable.Add(1)
		op.endLocked(&Unavailable{Consistency: ring.All, Required: len(required), Alive: alive})
		return
	}
	if len(nodes) == 0 {
		op.endLocked(nil)
		return
	}
	op.plan++
	plan := op.plan
	if op.void {
		op.truncation.ID = op.c.truncationID()
	}
	op.waiting, op.refused, op.void = slices.Clone(nodes), false, false
	truncation := op.truncation
	if op.timer == nil {
		op.timer = c.clock.After(op.deadline-c.clock.Monotonic(), op.timeout)
	}
	op.mu.Unlock()
	for _, n := range nodes {
		c.replicas.Replica(n).Truncate(t.Epoch(), truncation, c.remaining(op.deadline), func(err error) { op.answered(plan, n, err) })
	}
}

// believes says whether a node is this one, or lives as far as this one knows.
func (c *Coordinator) believes(n ring.NodeID) bool { return n == c.view.Self() || c.view.Alive(n) }

// truncates are the nodes that must take part in a truncation, and all that are asked.
func (c *Coordinator) truncates(table *schema.Table, t *ring.Topology) (required, asked []ring.NodeID) {
	if table.Replication.Class == ring.Local {
		return []ring.NodeID{c.view.Self()}, []ring.NodeID{c.view.Self()}
	}
	held := map[ring.NodeID]bool{}
	for _, r := range t.Placement(table.Replication).Ranges(ring.FullRange()) {
		for _, n := range r.Replicas.Natural {
			held[n] = true
		}
		for _, n := range r.Replicas.Pending {
			held[n] = true
		}
	}
	changes := len(t.Operations()) > 0
	for _, n := range t.Nodes() {
		if held[n.ID] || changes {
			required = append(required, n.ID)
		}
		if held[n.ID] || changes || c.believes(n.ID) {
			asked = append(asked, n.ID)
		}
	}
	return required, asked
}

// answered is the event of a node's answer. When a node refuses because the ring has changed, the others are waited for,
// and then all are asked by the new topology; those that have made the truncation answer at once.
func (op *truncateOp) answered(plan int, node ring.NodeID, err error) {
	op.mu.Lock()
	if op.done == nil || plan != op.plan {
		op.mu.Unlock()
		return
	}
	var refusal *NotReplica
	var void *TruncationVoid
	if op.void = errors.As(err, &void) || op.void; op.void || errors.As(err, &refusal) {
		op.refused = true
	}
	if errors.As(err, &void) || errors.As(err, &refusal) {
		err = nil
	}
	op.waiting = slices.DeleteFunc(op.waiting, func(n ring.NodeID) bool { return n == node })
	switch {
	case err != nil:
		op.endLocked(&TruncateFailure{Node: node, Cause: err})
	case len(op.waiting) > 0:
		op.mu.Unlock()
	case op.refused:
		op.truncation.Prepare = true
		op.mu.Unlock()
		op.c.clock.After(truncatePause, op.begin)
	case op.truncation.Prepare:
		op.truncation.Prepare = false
		op.mu.Unlock()
		op.begin()
	default:
		op.endLocked(nil)
	}
}

// truncatePause is how long a new plan waits for the metadata to arrive.
const truncatePause = 100 * time.Millisecond

// timeout is the event of the deadline.
func (op *truncateOp) timeout() {
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	var node ring.NodeID
	if len(op.waiting) > 0 {
		node = op.waiting[0]
	}
	op.endLocked(&TruncateFailure{Node: node, Cause: ErrNoReply})
}

// endLocked answers. It frees mu.
func (op *truncateOp) endLocked(err error) {
	done, timer := op.done, op.timer
	op.done = nil
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	done(err)
}

package coordinator

import (
	"fmt"
	"sync"
	"time"

	"cqld/ring"
	"cqld/schema"
)

// Truncate drops all rows of the table on every node that holds some. All must live: a node that
// missed it would bring its rows back.
func (c *Coordinator) Truncate(table *schema.Table, timeout time.Duration, done func(error)) {
	if ops := c.view.Topology().Operations(); len(ops) > 0 && table.Replication.Class != ring.Local {
		done(&TruncateFailure{Node: ops[0].Node, Cause: fmt.Errorf("the ring changes (%s, %s): rows on their way would come back", ops[0].Kind, ops[0].Phase)})
		return
	}
	nodes := c.holders(table)
	alive := 0
	for _, n := range nodes {
		if n == c.view.Self() || c.view.Alive(n) {
			alive++
		}
	}
	if alive < len(nodes) {
		c.counts.unavailable.Add(1)
		done(&Unavailable{Consistency: ring.All, Required: len(nodes), Alive: alive})
		return
	}
	if len(nodes) == 0 {
		done(nil)
		return
	}
	op := &truncateOp{left: len(nodes), done: done}
	timer := c.clock.After(timeout, func() { op.answered(0, ErrNoReply) })
	op.mu.Lock()
	op.stop = func() { timer.Stop() }
	op.mu.Unlock()
	for _, n := range nodes {
		c.replicas.Replica(n).Truncate(table.StorageID, timeout, func(err error) { op.answered(n, err) })
	}
}

// holders are the nodes that hold rows of the table, by id.
func (c *Coordinator) holders(table *schema.Table) []ring.NodeID {
	if table.Replication.Class == ring.Local {
		return []ring.NodeID{c.view.Self()}
	}
	t := c.view.Topology()
	held := map[ring.NodeID]bool{}
	for _, r := range t.Placement(table.Replication).Ranges(ring.FullRange()) {
		for _, n := range r.Replicas.Natural {
			held[n] = true
		}
		for _, n := range r.Replicas.Pending {
			held[n] = true
		}
	}
	var nodes []ring.NodeID
	for _, n := range t.Nodes() {
		if held[n.ID] {
			nodes = append(nodes, n.ID)
		}
	}
	return nodes
}

// truncateOp waits for all nodes.
type truncateOp struct {
	mu   sync.Mutex
	left int
	done func(error) // nil once called
	stop func()
}

// answered is the event of a node's answer, or of the deadline.
func (op *truncateOp) answered(node ring.NodeID, err error) {
	op.mu.Lock()
	op.left--
	if op.done == nil || err == nil && op.left > 0 {
		op.mu.Unlock()
		return
	}
	done := op.done
	op.done = nil
	op.mu.Unlock()
	op.stop()
	if err != nil {
		err = &TruncateFailure{Node: node, Cause: err}
	}
	done(err)
}

package coordinator

import (
	"maps"
	"slices"

	"cqld/ring"
)

// A node that leaves the ring takes the hints that it stores with it. A write at ANY may have no other copy. So, from the
// moment at which it learns that it leaves,
//
//  1. a hint that it stores does not satisfy ANY any more (hints.add), and
//  2. it gives the hints that it stores to two other nodes, as logged batches: these write them to all replicas, and store hints
//     of their own for replicas that are down (hints.giveAway).
//
// The operation that removes the node ends after that (rebalance.Movements.handOver).

// leaves reports whether this node is about to leave the ring, and must not keep anything for others.
func (c *Coordinator) leaves() bool { return !c.stays() && !c.unsafe.NoHintHandOver }

// giveAway makes a logged batch of hints, and asks two other nodes to store it.
func (h *hints) giveAway(q *hintQueue, batch hintBatch) {
	c := h.c
	made := batch.made[0] // a truncation since the newest of them makes all of them void
	for _, at := range batch.made {
		made = max(made, at)
	}
	op := &batchOp{c: c, handed: true, encoded: appendBatch(nil, made, 0, batch.mutations),
		id: RequestID{Node: c.view.Self(), Incarnation: c.incarnation, Sequence: c.sequence.Add(1)}}
	op.done = func(err error) {
		c.run(func() {
			if err != nil {
				h.pause(q, c.limits.HintRetry)
				return
			}
			h.delivered(q, batch)
		})
	}
	op.req.Timeout = batchHandOverTimeout
	op.deadline = c.clock.Monotonic() + op.req.Timeout
	if err := op.choose(); err != nil {
		h.pause(q, c.limits.HintRetry)
		return
	}
	op.begin()
}

// hintHandOver waits until others have the hints that the node stored when it began.
type hintHandOver struct {
	h    *hints
	left map[ring.NodeID]uint64 // hintQueue.removed that the queue must reach
	done func(error)
}

// handOverHints gives all stored hints to other nodes. It calls done once, with nil after the last one, or with errStays.
func (c *Coordinator) handOverHints(done func(error)) {
	if c.hints == nil || c.unsafe.NoHintHandOver {
		done(nil)
		return
	}
	o := &hintHandOver{h: c.hints, left: map[ring.NodeID]uint64{}, done: done}
	c.hints.mu.Lock()
	for node, q := range c.hints.mu.nodes {
		records := uint64(q.records)
		if len(q.buffer) > 0 || q.flushing {
			records++
		}
		o.left[node] = q.removed + records
	}
	c.hints.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(o.left)) {
		c.hints.nodeUp(node)
	}
	o.check()
}

// check is the event of the beginning and of the end of a pause.
func (o *hintHandOver) check() {
	h := o.h
	if h.c.stays() {
		o.done(errStays)
		return
	}
	h.mu.Lock()
	closed, waits := h.mu.closed, !h.mu.loaded
	for node, removed := range o.left {
		q := h.mu.nodes[node]
		waits = waits || q != nil && q.removed < removed && (q.records > 0 || len(q.buffer) > 0)
	}
	h.mu.Unlock()
	switch {
	case closed:
	case waits:
		h.c.clock.After(h.c.limits.BatchRetry, func() { h.c.run(o.check) })
	default:
		o.done(nil)
	}
}

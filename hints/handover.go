package hints

import (
	"errors"
	"maps"
	"slices"
	"time"

	"cqld/ring"
	"cqld/row"
)

// A node that leaves the ring takes the hints that it stores with it. A write at ANY may have no other copy. So, from
// the moment at which the node learns that it leaves,
//
//  1. a hint that it stores no longer satisfies ANY (Add, SatisfyAny), and
//  2. it gives the hints that it stores to two other nodes, as logged batches: these write them to all replicas, and
//     store hints of their own for replicas that are down (transfer).
//
// The operation that removes the node ends after that (replica.Moves.handOver).

// errStays ends a handover of a node that does not leave the ring.
var errStays = errors.New("hints: this node does not leave")

// stays reports whether this node is a member that does not leave the ring.
func (h *Hints) stays() bool {
	n := h.view.Topology().Node(h.view.Self())
	return n != nil && n.State != ring.Leaving
}

// leaves reports whether this node is about to leave the ring, and must not keep anything for others.
func (h *Hints) leaves() bool { return !h.stays() && !h.noHandOver }

// SatisfyAny implements coordinator.Hints.
func (h *Hints) SatisfyAny() bool { return !h.leaves() }

// Batches stores mutations on two other nodes as a logged batch, which they apply. Package batchlog implements it.
// created (ns since 1970) is when the newest of the mutations was made: it determines when the batch expires. done is
// called once: with nil when the batch is on their disks.
type Batches interface {
	Transfer(created int64, mutations []*row.Mutation, done func(error))
}

// transfer makes a logged batch of hints.
func (h *Hints) transfer(q *queue, batch records) {
	created := slices.Max(batch.created) * int64(time.Second)
	h.batches.Transfer(created, batch.mutations, func(err error) {
		h.run(func() {
			if err != nil {
				h.pause(q, h.limits.Retry)
				return
			}
			h.delivered(q, batch)
		})
	})
}

// handOver waits until others have the hints that the node stored when it began.
type handOver struct {
	h    *Hints
	left map[ring.NodeID]uint64 // queue.removed that the queue must reach
	done func(error)
}

// HandOver gives all stored hints to other nodes while this node leaves the ring. It calls done once: with nil after
// the last one, or with an error when the node does not leave.
func (h *Hints) HandOver(done func(error)) {
	if h.c == nil || h.noHandOver {
		done(nil)
		return
	}
	o := &handOver{h: h, left: map[ring.NodeID]uint64{}, done: done}
	h.mu.Lock()
	for node, q := range h.mu.nodes {
		records := uint64(q.records)
		if len(q.buffer) > 0 || q.flushing {
			records++
		}
		o.left[node] = q.removed + records
	}
	h.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(o.left)) {
		h.NodeUp(node)
	}
	o.check()
}

// handOverRetry is the pause between two checks whether others have all hints.
const handOverRetry = 5 * time.Second

// check is the event of the beginning and of the end of a pause.
func (o *handOver) check() {
	h := o.h
	if h.stays() {
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
		h.clock.After(handOverRetry, func() { h.run(o.check) })
	default:
		o.done(nil)
	}
}

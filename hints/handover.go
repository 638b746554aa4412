package hints

import (
	"errors"
	"time"

	"cqld/ring"
	"cqld/row"
)

// When a node leaves the ring, the hints that it stores are lost, and a write at ANY may have no other copy. So, from
// the moment when the node learns that it leaves the ring,
//
//  1. a hint that it stores no longer satisfies ANY (Add, SatisfyAny), and
//  2. it gives the hints that it stores to two other nodes, as logged batches: these write them to all replicas, and
//     store hints of their own for replicas that are down (transfer).
//
// The operation that removes the node ends after that (rebalance.Movements).

// errStays ends a handover of a node that does not leave the ring.
var errStays = errors.New("hints: this node does not leave")

// stays reports whether this node is a member that does not leave the ring.
func (h *Hints) stays() bool {
	n := h.view.Topology().Node(h.view.Self())
	return n != nil && n.State != ring.Leaving
}

// leaves reports whether this node is about to leave the ring, so that it must not store data for others.
func (h *Hints) leaves() bool { return !h.stays() }

// SatisfyAny implements coordinator.Hints.
func (h *Hints) SatisfyAny() bool { return !h.leaves() }

// Batches stores mutations on two other nodes as a logged batch, which they apply. Package batchlog implements it.
// created (ns since 1970) is when the oldest of the mutations was made: it determines when the batch expires. done is
// called once: with nil when the batch is on their disks.
type Batches interface {
	Transfer(created int64, mutations []*row.Mutation, done func(error))
}

// transfer makes logged batches of a delivery.
func (h *Hints) transfer(d *delivery) {
	parts := h.byAge(d)
	answered := gather(len(parts), func(err error) {
		h.deliver(&event{kind: eventRerouted, delivery: d, err: err})
	})
	for _, p := range parts {
		h.batches.Transfer(p.created, p.mutations, answered)
	}
}

// HandOver gives all stored hints to other nodes while this node leaves the ring. It calls done once: with nil after
// the last one, or with an error when the node does not leave.
func (h *Hints) HandOver(done func(error)) {
	// No hint was accepted before Start.
	if h.c == nil {
		done(nil)
		return
	}
	h.deliver(&event{kind: eventLeaving, handOver: &handOver{done: done}, stays: h.stays()})
}

// handOverRetry is the pause between two checks whether others have all hints.
const handOverRetry = 5 * time.Second

// checkHandOver delivers eventChecked after each pause of a handover.
func (h *Hints) checkHandOver(o *handOver) {
	h.deliver(&event{kind: eventChecked, handOver: o, stays: h.stays()})
}

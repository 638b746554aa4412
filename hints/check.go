package hints

import (
	"encoding/binary"

	"cqld/internal/invariant"
	"cqld/ring"
)

// check stops the program if an invariant is broken:
//
//  1. The bytes that are released are the bytes that were reserved: no count is negative.
//  2. Records that exist are being delivered, or an awaited event begins their delivery. Otherwise they would remain
//     until the node restarts.
//  3. A node has one delivery at a time, and none is scheduled while one is in progress.
//  4. A callback waits only for a hint that is in the buffer.
//  5. No hint is stored before the records of an earlier process are known.
//  6. The counts of all nodes add up.
func (m *machine) check(ev *event) {
	invariant.Check(m.bytes >= 0, "hints: more bytes were given back than taken") // 1
	// The node of the event is always checked. All nodes are checked in tests only, because a ring may have many.
	if q := m.nodes[ev.queue()]; q != nil {
		m.checkQueue(q)
	}
	if !invariant.Enabled {
		return
	}
	sum := int64(0)
	for _, q := range m.nodes {
		m.checkQueue(q)
		sum += q.bytes
	}
	invariant.Check(sum == m.bytes, "hints: the bytes of all nodes do not add up") // 6
}

// checkQueue checks the invariants of one node.
func (m *machine) checkQueue(q *queue) {
	invariant.Check(q.writing >= 0 && q.records+q.writing >= 0, "hints: more records were removed than written") // 1
	invariant.Check(q.bytes >= int64(len(q.buffer)), "hints: more bytes of a node were given back than taken")   // 1
	invariant.Check(m.closed || q.records <= 0 || q.delivery != nil || q.due != 0,
		"hints: no event would deliver the records of a node") // 2
	invariant.Check(q.delivery == nil || q.due == 0, "hints: a node has two deliveries")               // 3
	invariant.Check(len(q.stored) == 0 || len(q.buffer) > 0, "hints: a callback waits for no hint")    // 4
	invariant.Check(m.loaded || q.bytes == 0, "hints: a hint was stored before the records are known") // 5
}

// queue returns the node whose hints the event changes, or zero.
func (ev *event) queue() ring.NodeID {
	switch {
	case ev.record != nil:
		return ev.record.node
	case ev.delivery != nil:
		return ev.delivery.node
	}
	return ev.node
}

// checkEvent stops the program if an event does not belong to the state:
//
//  7. The position of a record is new when the record is written, and in the past when it is removed.
//  8. An answer is the only one of its delivery.
func (m *machine) checkEvent(ev *event) {
	if r := ev.record; r != nil {
		q := m.nodes[r.node]
		invariant.Check(q != nil && q.writing > 0 && r.sequence < q.sequence, "hints: a record without a position") // 7
	}
	d := ev.delivery
	if d == nil {
		return
	}
	q := m.nodes[d.node]
	invariant.Check(q != nil && q.delivery == d, "hints: a delivery has two answers") // 8
	if ev.kind == eventRemoved {
		invariant.Check(ev.count <= len(d.keys) && len(d.keys) == len(d.sizes),
			"hints: more records were removed than sent")
		for _, key := range d.keys[:ev.count] {
			at := binary.BigEndian.Uint64(key[len(prefix)+8:])
			invariant.Check(at < q.sequence, "hints: a record was removed whose position is not assigned yet") // 7
		}
	}
}

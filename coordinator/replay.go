package coordinator

import (
	"time"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Hints stores the mutations that replicas missed and delivers them later. Package hints implements it.
type Hints interface {
	// Add stores mutations for node. began is the monotonic time at which the write began: a truncation of the table
	// that this node prepares or applies later makes the hint void. created is WriteRequest.Created. If stored is not
	// nil, it is called once: with nil when the hint is on disk, with an error when it is lost. Add keeps the mutations
	// only during the call.
	Add(node ring.NodeID, mutations []*row.Mutation, began time.Duration, created int64, stored func(error))
	// SatisfyAny reports whether a stored hint satisfies ANY. It does not when this node leaves the ring.
	SatisfyAny() bool
}

// LocalStore keeps what must survive a restart in the local keys of this node's storage.
type LocalStore interface {
	SetLocal(key, value []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

// MayReplay reports whether hints and logged batches may be replayed. They may not before the metadata are confirmed,
// because by an older schema or topology some of them would be dropped or sent to the wrong nodes, and not before the
// truncations of an earlier process are known.
func (c *Coordinator) MayReplay() bool {
	// The second condition may read from the disk.
	return (c.confirmed == nil || c.confirmed()) && c.TruncationsKnown()
}

// BeginSending starts a transmission of mutations that replicas must not receive after a truncation that begins later:
// the truncation waits until EndSending is called with the returned generation.
func (c *Coordinator) BeginSending() (generation uint64) { return c.sent.Enter() }

// EndSending ends the transmission that BeginSending started: no answer of a replica is outstanding.
func (c *Coordinator) EndSending(generation uint64) { c.sent.Leave(generation) }

// The marks of stored mutations
//
// A node decides with numbers, not with wall-clock times, whether a stored mutation is from before a truncation. Clocks
// of different nodes differ, and the clock of one node can go backwards.
//
//  1. A truncation of a table that this node prepares or applies gets a number that is greater than those of all
//     truncations of all tables that this node has recorded. The number is on disk before anything depends on it, and
//     is never forgotten. It is at least the wall-clock time (ns since 1970), so that records of earlier versions,
//     which contain such times, become void, too.
//  2. A stored mutation has a mark: the last number plus one. It is void when the last truncation of its table has the
//     mark as its number, or a greater one. A mark is compared only with numbers of the node that assigned it.
//  3. A hint has the mark of the last truncation of its table instead, and is void at once, when its write began before
//     that truncation.
//  4. The holder of a logged batch assigns its mark when it stores the batch. A batch that was sent before this node
//     prepared the truncation may arrive between the two phases. All nodes have answered that they are prepared before
//     one applies the truncation, and a node answers only when all requests that it sent before have ended: none
//     arrives after the holder has applied, and applying makes those void that have arrived. Until the truncation ends,
//     holders replay no batch of the table.
//  5. A node that replays or hands over stored mutations calls BeginSending before it reads them and checks their
//     marks. A truncation that is prepared later waits for EndSending. Hints for them have the time of that
//     BeginSending (WriteRequest.Since).

// Void reports whether a mutation of a table that this node stored with a mark is from before a truncation of the
// table.
func (c *Coordinator) Void(table schema.StorageID, mark int64) bool {
	last, ok := c.truncating.last(table)
	// The comparison of statement 2 above.
	return ok && mark <= last
}

// HintMark returns the mark to store with a hint of a write that began at a monotonic time. TruncationsKnown must have
// returned true.
func (c *Coordinator) HintMark(table schema.StorageID, began time.Duration) int64 {
	return c.truncating.hintMark(table, began)
}

// StoredMark returns the mark to store with mutations that this node receives. TruncationsKnown must have returned
// true.
func (c *Coordinator) StoredMark() int64 {
	return c.truncating.mark()
}

package coordinator

import (
	"time"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Hints stores the mutations that replicas missed and delivers them later. Package hints implements it.
type Hints interface {
	// Add stores mutations for node. began is the monotonic time at which the write began: a later truncation of the table
	// makes the hint void. If stored is not nil, it is called once: with nil when the hint is on disk, with an error when it is
	// lost. Add keeps the mutations only during the call.
	Add(node ring.NodeID, mutations []*row.Mutation, began time.Duration, stored func(error))
	// SatisfyAny reports whether a stored hint satisfies ANY. It does not when this node leaves the ring.
	SatisfyAny() bool
}

// LocalStore keeps what must survive a restart in the local keys of this node's storage.
type LocalStore interface {
	SetLocal(key, value []byte, sync bool) error
	ScanLocal(prefix []byte, f func(key, value []byte) error) error
}

// MayReplay reports whether hints and logged batches may be replayed. They may not before the metadata are confirmed, because
// some of them would be void or would go to other nodes by an older schema or topology, and not before the truncations of an
// earlier process are known.
func (c *Coordinator) MayReplay() bool {
	return (c.confirmed == nil || c.confirmed()) && c.loadTruncations()
}

// BeginSending starts a transmission of mutations that replicas must not receive after a truncation that begins later: the
// truncation waits until EndSending is called with the returned generation.
func (c *Coordinator) BeginSending() (generation uint64) { return c.sent.Enter() }

// EndSending ends the transmission that BeginSending started: no answer of a replica is outstanding.
func (c *Coordinator) EndSending(generation uint64) { c.sent.Leave(generation) }

// TruncatedAt returns the time (ns since 1970) of the last truncation of a table in which this node participated. Mutations
// of writes that began before it are void. Without a truncation it returns the minimum int64.
func (c *Coordinator) TruncatedAt(table schema.StorageID) int64 { return c.truncating.at(table) }

// MadeAt returns the time (ns since 1970) to store with a mutation of a write that began at a monotonic time. The time is
// after TruncatedAt if the write began after the last truncation of the table: a clock that was ahead when the table was
// truncated must not make later writes void.
func (c *Coordinator) MadeAt(table schema.StorageID, began time.Duration) int64 {
	made := c.clock.Now().Add(began - c.clock.Monotonic()).UnixNano()
	if at := c.TruncatedAt(table); made <= at && !c.truncatedSince(table, began) {
		return at + 1
	}
	return made
}

package search

import (
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/index"

	"cqld/internal/env"
)

// PageRequest asks one node for its next candidates.
type PageRequest struct {
	Table    schema.StorageID
	Index    schema.StorageID
	Terms    []row.Slice
	Key      row.PartitionKey // Bytes are nil if the search is not for one partition
	Tokens   ring.Range       // does not wrap
	Slices   []row.Slice      // nil means all rows
	Filter   *row.Filter
	From     Position
	Reversed bool
	Order    Order
	Limit    int
	Now      int64       // seconds since 1970
	Moved    uint64      // ring.Topology.Moved of the topology that the search was planned with
	Cancel   *env.Cancel // is not sent; nil means that nothing ends the request early
}

// Page has every row that matches by the versions of a node, from the beginning of the request up to and including Last.
type Page = index.Page

// Replicas searches on nodes, this one included. Page returns at once and calls done exactly once, possibly before it returns. The
// caller owns the page, and must not change q until done is called. trace may be nil. A node that knows of a later change of the
// ring than epoch, or of an earlier one than q.Moved, refuses with coordinator.NotReplica.
type Replicas interface {
	Page(to ring.NodeID, trace coordinator.Trace, epoch uint64, q *PageRequest, timeout time.Duration, done func(*Page, error))
}

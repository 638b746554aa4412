package search

import (
	"fmt"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/index"
)

// Order is the order of a search.
type Order = index.Order

// The orders.
const (
	// ByToken is the order of the ring: tokens, then the rows of a partition. Secondary indexes are searched in it.
	ByToken = index.ByToken
	// ByTerm is the order of the terms; the entries of one term are in the order of ByToken. Views are read in it.
	ByTerm = index.ByTerm
	// ByScore is the order of the scores of vectors, the best ones first; equal scores are in the order of ByToken.
	// Terms are not used. If replicas search a graph, rows may be missing from the result (package
	// storage/index/vector).
	ByScore = index.ByScore
)

// Branch is a further index of a union, with intervals of its terms.
type Branch = index.Branch

// Position is a place in the order of a search, after a row. It is opaque, and positions of one search compare as
// bytes; nil is the beginning. It can be kept in the state of a client's page.
type Position = index.Position

// Request selects the rows of a table whose terms in an index are in given intervals. The zero value of an optional
// field means none: From, Slices, Union, Key, Filter, Near, Limit, Trace, Cancel and Grow.
type Request struct {
	Table *schema.Table
	Index schema.StorageID // of the index.Definition
	// Terms are intervals of terms, ascending and disjoint; a row matches if it has a term in one of them. A single
	// term is row.ExactRow(term). Empty finds nothing.
	Terms []row.Slice
	// Union has terms of further indexes: a row matches also if it has one of these. It is for ByToken, and for indexes
	// of regular and clustering columns.
	Union []Branch
	// Key restricts the search to one partition if its Bytes are not nil. Otherwise Tokens, which must not wrap, does.
	Key    row.PartitionKey
	Tokens ring.Range
	// Slices restrict the clustering of the rows, ascending and disjoint; nil means all rows.
	Slices []row.Slice
	// StaticCounts applies to the reads of partitions, for indexes of static and partition key columns.
	StaticCounts bool
	// Filter has further conditions. Replicas evaluate those that cannot hide a row that matches after a merge; the
	// caller evaluates all of them on the rows of the result. nil means none.
	Filter *row.Filter
	From   Position // the result begins after it; nil means at the beginning
	// Reversed reverses the order. In ByToken it is allowed with Key only.
	Reversed bool
	Order    Order
	// Near is the vector that ByScore compares with; nil for other orders.
	Near  []byte
	Limit int // most rows in the result; zero, like more than Limits.Rows, means Limits.Rows

	Consistency ring.Consistency
	Now         int64 // seconds since 1970; decides what has expired
	Timeout     time.Duration
	Trace       coordinator.Trace // nil means that the request is not traced
	// Cancel ends the search early with env.ErrCanceled, here and on the replicas. nil means that nothing does.
	Cancel *env.Cancel
	// Grow reserves memory for candidates, for the rows that are read, and for the result. Without enough, the search
	// fails with coordinator.NeedsMemory, and can be repeated.
	Grow coordinator.Grow
}

// Result contains the rows of a Request, up to its limit.
type Result struct {
	// Page contains the rows in the encoding of row.PageReader: reconciled, live, in the order of the request, and
	// without range tombstones. Rows of one partition that follow each other are together; in ByTerm a partition can
	// come again. A partition without rows has a live static row.
	Page []byte
	Rows int // in Page; a partition without rows counts as one
	// Next is the position after which the search continues if More is set: a request with it as From finds what
	// follows, whatever its Limit. It can be after rows that did not match.
	Next Position
	More bool
	// Scanned is the maximum number of entries that a replica examined.
	Scanned int
}

// NotBuilt is the error of a search by an index that too few replicas have built. Its index may be used again once
// builds are complete. It occurs shortly after CREATE INDEX, during a rebuild, and on a node that was replaced.
type NotBuilt struct {
	Index schema.StorageID
	// Nodes is the number of replicas that have not built the index.
	Nodes int
	// Failure is the failure of the read as clients know it; nil if this node does not know the index.
	Failure *coordinator.ReadFailure
}

// Error implements error.
func (e *NotBuilt) Error() string {
	return fmt.Sprintf("search: the index %d is not built on %d replicas", e.Index, e.Nodes)
}

// Unwrap returns the failure, if there is one.
func (e *NotBuilt) Unwrap() error {
	if e.Failure == nil {
		return nil
	}
	return e.Failure
}

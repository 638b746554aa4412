package coordinator

import (
	"bytes"
	"slices"
	"time"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/schema"
)

// KeySpan is the partition keys from From on, up to, and without, To, in the order of their bytes. A nil
// To is no end.
type KeySpan struct{ From, To []byte }

// empty says whether no key can lie in s.
func (s KeySpan) empty() bool { return s.To != nil && bytes.Compare(s.From, s.To) >= 0 }

// contains says whether key lies in s.
func (s KeySpan) contains(key []byte) bool {
	return bytes.Compare(key, s.From) >= 0 && (s.To == nil || bytes.Compare(key, s.To) < 0)
}

// behind is the part of s that follows key in a walk over s, which may be backwards.
func (s KeySpan) behind(key []byte, reversed bool) KeySpan {
	if reversed {
		return KeySpan{From: s.From, To: key}
	}
	return KeySpan{From: append(slices.Clone(key), 0), To: s.To}
}

// PartitionsRequest asks for the partition keys of a table in their own order (bytes ascending), which is
// not that of the ring: every node knows the order of what it holds (storage's partition index), and
// enough nodes are asked that each token's replicas meet the level.
type PartitionsRequest struct {
	Table       *schema.Table
	Span        KeySpan
	Limit       int // most keys in the answer; zero, and more than Limits.PartitionKeys, is that
	Reversed    bool
	Consistency ring.Consistency
	Timeout     time.Duration
	// Patience is after how long the answer may be what is known by then, if that is anything; zero: never.
	Patience time.Duration
	Now      int64 // seconds; decides what has expired
	// Dead takes partitions without a live row into the answer, too. Nobody then looks whether they live, which
	// is dear; who reads them all sees it.
	Dead  bool
	Trace Trace
	// Cancel ends the listing early, here and at the replicas, with env.ErrCanceled; nil: nothing does.
	Cancel *env.Cancel
}

// Partitions answers: every partition of the span that had a live row when the request began is there, up
// to the limit; one that is there may turn out empty when it is read.
type Partitions struct {
	Keys [][]byte
	More bool // there may be further ones behind Reached
	// Reached is the key up to which, and with which, all was told, when there is more: the last of Keys, or one
	// behind it where time ended the answer.
	Reached []byte
	// Scanned is how many keys the replica that looked at most had to look at.
	Scanned int
}

// PartitionsRead asks one replica, for a step of the answer.
type PartitionsRead struct {
	Table    schema.StorageID
	Span     KeySpan
	Reversed bool
	Limit    int
	Now      int64
	Dead     bool        // take partitions without a live row, too
	Moved    uint64      // ring.Topology.Moved of the topology that the request was planned with
	Cancel   *env.Cancel // not encoded; nil: nothing ends the step early
}

// PartitionsPage is a replica's answer: every partition that it holds and that has a live row, from the
// beginning of the span up to and with Last.
type PartitionsPage struct {
	Keys    [][]byte
	Last    []byte // the last key it looked at; nil when there is none
	More    bool   // there may be others behind Last
	Scanned int    // keys it looked at
}

// Partitions lists partition keys in their own order, as many as the request's limit and the bounds of an
// answer allow. A table whose partitions are not kept in order (schema.Table.OrderedPartitions) is walked
// as a whole: correct, and as expensive as reading a row of each of its partitions.
func (c *Coordinator) Partitions(req *PartitionsRequest, done func(*Partitions, error)) {
	if c.view.Schema().TableByStorage(req.Table.StorageID) == nil {
		done(nil, &UnknownTable{Table: req.Table.StorageID})
		return
	}
	if err := req.Cancel.Err(); err != nil {
		done(nil, env.ErrCanceled)
		return
	}
	if req.Span.empty() {
		done(&Partitions{}, nil)
		return
	}
	limit := c.limits.PartitionKeys
	if req.Limit > 0 {
		limit = min(limit, req.Limit)
	}
	if req.Table.OrderedPartitions() {
		c.listPartitions(req, limit, done)
		return
	}
	c.walkPartitions(req, limit, done)
}

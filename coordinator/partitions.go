package coordinator

import (
	"time"

	"cqld/ring"
	"cqld/schema"
)

// KeySpan is the partition keys from From on, up to, and without, To, in the order of their bytes. A nil
// To is no end.
type KeySpan struct{ From, To []byte }

// PartitionsRequest asks for the partition keys of a table in their own order (bytes ascending), which is
// not that of the ring: every node knows the order of what it holds (storage's partition index), and
// enough nodes are asked that each token's replicas meet the level.
type PartitionsRequest struct {
	Table       *schema.Table
	Span        KeySpan
	Limit       int // most keys in the answer
	Reversed    bool
	Consistency ring.Consistency
	Timeout     time.Duration
	Now         int64 // seconds; decides what has expired
	Trace       Trace
}

// Partitions answers: every partition of the span that had a live row when the request began is there, up
// to the limit; one that is there may turn out empty when it is read.
type Partitions struct {
	Keys [][]byte
	More bool // there may be further ones behind the last
	// Scanned is how many keys the replica that looked at most had to look at.
	Scanned int
}

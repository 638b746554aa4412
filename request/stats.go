package request

import (
	"slices"
	"sync/atomic"
	"time"

	"cqld/internal/histogram"
	"cqld/row"
	"cqld/search"
)

// Kind is a kind of operation that an Executor sends to the coordinator. Each command of a scan counts as one
// KindRead.
type Kind uint8

// The kinds.
const (
	KindRead Kind = iota
	KindWrite
	KindBatch
	KindCounter
	KindCAS
	KindListing
	KindSearch
	Kinds // number of kinds
)

// String returns the name of the kind in metrics.
func (k Kind) String() string {
	switch k {
	case KindRead:
		return "read"
	case KindWrite:
		return "write"
	case KindBatch:
		return "batch"
	case KindCounter:
		return "counter"
	case KindCAS:
		return "cas"
	case KindListing:
		return "partitions"
	case KindSearch:
		return "search"
	}
	return "?"
}

// sampled returns n if one in n operations of the kind is measured. Reading the clock twice costs a tenth of a small
// read, so reads and writes are sampled, which suffices for a histogram; Count is exact.
func (k Kind) sampled() int64 {
	if k == KindRead || k == KindWrite {
		return SampledReads
	}
	return 1
}

// SampledReads is the number of reads, or writes, of which one is measured.
const SampledReads = 8

// Stats contains the statistics of an Executor since its creation. They are safe for concurrent use.
type Stats struct {
	Kinds [Kinds]KindStats
	// Outcomes of conditional changes. It is unknown whether a failed change was applied.
	Applied, NotApplied, Failed atomic.Int64
}

// KindStats contains the statistics of one kind.
type KindStats struct {
	Count atomic.Int64
	// Latency contains only the measured operations.
	Latency histogram.Histogram
}

// begin counts a request and reports whether to measure its latency. The first request is measured.
func (s *Stats) begin(k Kind) (measured bool) { return (s.Kinds[k].Count.Add(1)-1)%k.sampled() == 0 }

// end records how long a measured operation took.
func (s *Stats) end(k Kind, took time.Duration) { s.Kinds[k].Latency.Add(took) }

// decided counts the outcome of a conditional change.
func (s *Stats) decided(applied bool, err error) {
	switch {
	case err != nil:
		s.Failed.Add(1)
	case applied:
		s.Applied.Add(1)
	default:
		s.NotApplied.Add(1)
	}
}

// TableStats contains the statistics of one table since the node started: what this node did as the coordinator.
// Conditional changes do not count, as in Cassandra. They are safe for concurrent use.
type TableStats struct {
	// Read is for reads of one partition; a read of several partitions counts for each.
	Read histogram.Timer
	// Scan is for pages of reads without a partition key.
	Scan histogram.Timer
	// Write is for writes; one of several partitions of the table counts once.
	Write histogram.Timer
}

// countRead counts a read of one partition. Scan counts the others.
func (e *Executor) countRead(c *Call, cmd *row.ReadCommand) {
	if e.o.Tables != nil && cmd.SinglePartition() {
		c.count(&e.o.Tables(cmd.Table).Read)
	}
}

// countSearch counts a search by an index: in one partition as a read, and otherwise as a scan.
func (e *Executor) countSearch(c *Call, req *search.Request) {
	if e.o.Tables == nil {
		return
	}
	if t := e.o.Tables(req.Table.StorageID); req.Key.Bytes != nil {
		c.count(&t.Read)
	} else {
		c.count(&t.Scan)
	}
}

// countWrite counts a write for each of its tables.
func (e *Executor) countWrite(c *Call, mutations []*row.Mutation) {
	if e.o.Tables == nil {
		return
	}
	// Batches concern few tables, so that comparing with all earlier mutations needs no map.
	for i, m := range mutations {
		if !slices.ContainsFunc(mutations[:i], func(earlier *row.Mutation) bool { return earlier.Table == m.Table }) {
			c.count(&e.o.Tables(m.Table).Write)
		}
	}
}

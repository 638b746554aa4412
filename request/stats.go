package request

import (
	"sync/atomic"
	"time"

	"cqld/internal/histogram"
)

// Kind is a kind of work that an Executor asks the coordinator for.
type Kind uint8

// The kinds.
const (
	KindRead Kind = iota
	KindWrite
	KindBatch
	KindCounter
	KindCAS
	KindListing
	Kinds // how many there are
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
	}
	return "?"
}

// sampled is one in how many requests of the kind is measured. Two looks at the clock cost a tenth of a small read; the other
// kinds do much more than that.
func (k Kind) sampled() int64 {
	if k == KindRead || k == KindWrite {
		return SampledReads
	}
	return 1
}

// SampledReads is how many reads, and how many writes, there are for one that is measured.
const SampledReads = 8

// Stats are the counts of an Executor since it was made. They are safe for concurrent use.
type Stats struct {
	Kinds [Kinds]KindStats
	// Outcomes of conditional changes. Of a failed one it is unknown whether it was made.
	Applied, NotApplied, Failed atomic.Int64
}

// KindStats are the counts of one kind.
type KindStats struct {
	Count   atomic.Int64
	Latency histogram.Histogram // of those that were measured
}

// begin counts a request and reports whether to measure its latency. The first request is measured.
func (s *Stats) begin(k Kind) (measured bool) { return (s.Kinds[k].Count.Add(1)-1)%k.sampled() == 0 }

func (s *Stats) end(k Kind, took time.Duration) { s.Kinds[k].Latency.Add(took) }

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

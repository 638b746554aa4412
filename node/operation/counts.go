package operation

import (
	"sync/atomic"

	"cqld/azuretables"
	"cqld/internal/histogram"
)

// Counts counts the requests to the Tables server and its responses since the node started. It is safe for concurrent
// use, and its size is fixed.
type Counts struct {
	operations [Kinds]struct {
		latency  histogram.Histogram
		statuses [Digits]atomic.Int64 // by their first digit
	}
}

// Answered implements azuretables.Options.Answered. It is called for each response, so it neither locks nor allocates.
func (f *Counts) Answered(a azuretables.Answer) {
	o := &f.operations[Of(a)]
	o.latency.Add(a.Took)
	o.statuses[min(a.Status/100, len(o.statuses)-1)].Add(1)
}

// Digits is the number of first digits of a status that are counted.
const Digits = 6

// Latency returns the durations of the requests of a kind.
func (f *Counts) Latency(k Kind) *histogram.Histogram { return &f.operations[k].latency }

// Answers returns how many requests of a kind were answered with a status whose first digit is digit. 0 stands for
// none, and 5 also for all others.
func (f *Counts) Answers(k Kind, digit int) int64 { return f.operations[k].statuses[digit].Load() }

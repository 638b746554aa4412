package histogram

import (
	"sync/atomic"
	"time"
)

// Counts counts numbers of things, for example of rows, in the buckets of Histogram; 0 is exact. The zero value is
// empty. It is safe for concurrent use. It has 2 KiB, like a Histogram.
type Counts struct {
	zeros  atomic.Int64
	others Histogram // numbers as nanoseconds
}

// CountPercentiles summarizes Counts. All fields are zero when nothing was added.
type CountPercentiles struct {
	Count                int64 // numbers that were added
	P50, P99, P999, Most int64
}

// Add counts a number. Negative ones count as 0. It costs one atomic addition.
func (c *Counts) Add(n int64) {
	if n <= 0 {
		c.zeros.Add(1)
		return
	}
	// The sum of others stays zero: means of numbers are not needed.
	c.others.classes[class(time.Duration(n))].Add(1)
}

// Percentiles reads the counts. Numbers added concurrently may be counted or not. The percentiles are middles of
// buckets, so they are off by at most 12 %, and whole numbers.
func (c *Counts) Percentiles() (p CountPercentiles) {
	counts, total := c.others.load()
	zeros := c.zeros.Load()
	p.Count = zeros + total
	// All numbers were zero, and so are all percentiles.
	if total == 0 {
		return p
	}
	at := func(share float64) int64 {
		// Zeros have the lowest ranks.
		if rank := int64(share * float64(p.Count)); rank >= zeros {
			return int64(atRank(&counts, rank-zeros))
		}
		return 0
	}
	p.P50, p.P99, p.P999, p.Most = at(.50), at(.99), at(.999), int64(atRank(&counts, total-1))
	return p
}

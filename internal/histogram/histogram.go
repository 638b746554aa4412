// Package histogram counts durations and numbers. Percentiles, means, rates and cumulative counts can be read while
// other goroutines add. Buckets have fixed bounds, so a histogram has a fixed size. They are not reset: rates and
// recent percentiles are differences of two readings, or are computed from the rate of a Timer.
//
//	octave 10:  1024 ns ─ 1280 ─ 1536 ─ 1792 ─ 2048 ns      four buckets
//	octave 11:  2048 ns ─ 2560 ─ 3072 ─ 3584 ─ 4096 ns
package histogram

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Histogram counts durations in buckets a quarter of an octave (power of two) wide, so percentiles are off by at most
// 12 %. The zero value is empty. It is safe for concurrent use; Add costs two atomic additions. It has 2 KiB.
type Histogram struct {
	classes [classes]atomic.Int64
	sum     atomic.Int64 // ns
}

// classes is the number of buckets: four for each octave of 64 bits.
const classes = 64 * 4

// Percentiles summarizes a Histogram. All fields are zero when nothing was added. Each is the middle of a bucket, also
// Min and Max.
type Percentiles struct {
	Count                   int64
	P50, P75, P95, P98, P99 time.Duration
	Min, Max                time.Duration
}

// Add counts one duration. Zero and negative ones count as 1 ns. Its two additions are not one step: a reader may see
// the count without the sum.
func (h *Histogram) Add(d time.Duration) {
	h.classes[class(d)].Add(1)
	h.sum.Add(int64(d))
}

// class returns the bucket of d: its octave and the two bits after its highest.
func class(d time.Duration) int {
	v := uint64(max(d, 1))
	octave := bits.Len64(v) - 1
	if octave < 2 { // 1, 2 and 3
		// There are no two bits after the highest one: 1 is alone in its octave, 2 and 3 have a bucket each.
		return octave*4 + int(v&1&uint64(octave))
	}
	return octave*4 + int(v>>(octave-2)&3)
}

// middle returns the middle of a bucket. The bounds of bucket 4·o + p are 2^o·(1 + p/4) and 2^o·(1 + (p+1)/4).
func middle(c int) time.Duration {
	octave, part := c/4, c%4
	if octave < 2 {
		return time.Duration(1<<octave + part)
	}
	// Half a bucket above its lower bound. Shifted to the left first, so that small octaves keep the half.
	return time.Duration((uint64(4+part)<<1 + 1) << (octave - 2) >> 1)
}

// Percentiles reads the histogram. Durations added concurrently may be counted or not.
func (h *Histogram) Percentiles() (p Percentiles) {
	counts, total := h.load()
	if p.Count = total; total == 0 {
		return p
	}
	at := func(share float64) time.Duration { return atRank(&counts, int64(share*float64(total))) }
	p.Min, p.Max = atRank(&counts, 0), atRank(&counts, total-1)
	p.P50, p.P75, p.P95, p.P98, p.P99 = at(.50), at(.75), at(.95), at(.98), at(.99)
	return p
}

// load returns the number of durations in each class, and in total. It reads the buckets one after the other, so the
// total is the sum of what it has read, and ranks are within it.
func (h *Histogram) load() (counts [classes]int64, total int64) {
	for c := range h.classes {
		counts[c] = h.classes[c].Load()
		total += counts[c]
	}
	return counts, total
}

// atRank returns the duration with a rank, from 0 on, in ascending order. A rank of total or more returns 0; callers
// stay below it.
func atRank(counts *[classes]int64, rank int64) time.Duration {
	// Buckets ascend, so the first one that contains the rank is the right one.
	for c, n := range counts {
		if rank -= n; rank < 0 {
			return middle(c)
		}
	}
	return 0
}

// Octaves returns, for each power of two from 2^first to 2^last nanoseconds, how many durations were shorter than that,
// keyed by seconds as Prometheus wants them; and the count and the sum of all durations. A duration of exactly a power
// of two counts at the next one: the error is a nanosecond.
func (h *Histogram) Octaves(first, last int) (upTo map[float64]uint64, count uint64, sum time.Duration) {
	upTo = make(map[float64]uint64, last-first+1)
	for c := range h.classes {
		if octave := c / 4; c%4 == 0 && octave >= first && octave <= last {
			upTo[(time.Duration(1) << octave).Seconds()] = count
		}
		// The octave's durations are added after its entry, because they are longer than the bound.
		count += uint64(h.classes[c].Load())
	}
	return upTo, count, time.Duration(h.sum.Load())
}

// Mean returns the mean of all durations; zero when nothing was added. It is exact, unlike the percentiles, except for
// durations added concurrently.
func (h *Histogram) Mean() time.Duration {
	var count int64
	for c := range h.classes {
		count += h.classes[c].Load()
	}
	if count == 0 {
		return 0
	}
	return time.Duration(h.sum.Load() / count)
}

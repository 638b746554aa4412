package load

import (
	"math"
	"sync/atomic"
	"time"

	"cqld/ring"
)

// counts are numbers since the node started, or a difference of two of them.
type counts struct{ reads, writes, bytesOut, bytesIn uint64 }

// minus returns the counts since an earlier reading. The counters never fall, but the four of one range are read one
// after the other.
func (c counts) minus(o counts) counts {
	return counts{c.reads - o.reads, c.writes - o.writes, c.bytesOut - o.bytesOut, c.bytesIn - o.bytesIn}
}

// plus returns the sum.
func (c counts) plus(o counts) counts {
	return counts{c.reads + o.reads, c.writes + o.writes, c.bytesOut + o.bytesOut, c.bytesIn + o.bytesIn}
}

// counter counts the requests of one range. The counters of two ranges are never on the same cache line, because a
// partition is larger: processors that execute requests of different ranges do not wait for each other.
type counter struct{ reads, writes, bytesOut, bytesIn atomic.Uint64 }

// now reads the counters.
func (c *counter) now() counts {
	return counts{c.reads.Load(), c.writes.Load(), c.bytesOut.Load(), c.bytesIn.Load()}
}

// Rates are averages per second.
type Rates struct{ Reads, Writes, BytesOut, BytesIn float64 }

// Charge returns the charge of the requests per second.
func (r Rates) Charge() float64 { return Charge(r.Reads, r.Writes, r.BytesOut, r.BytesIn) }

// plus returns the sum of the rates.
func (r Rates) plus(o Rates) Rates { return r.add(o, 1) }

// add returns r plus o times share.
func (r Rates) add(o Rates, share float64) Rates {
	return Rates{r.Reads + o.Reads*share, r.Writes + o.Writes*share, r.BytesOut + o.BytesOut*share,
		r.BytesIn + o.BytesIn*share}
}

// times returns r times factor.
func (r Rates) times(factor float64) Rates { return Rates{}.add(r, factor) }

// average is an exponentially weighted average of rates. It starts at zero: weight is the part of the full weight that
// the observations since its start have, and the average is sum divided by weight. An average that is younger than its
// time is therefore the mean of all that it has observed, and not an underestimate.
type average struct {
	sum    Rates
	weight float64
}

// observe adds the counts of the last seconds. part is the weight of these seconds (weightOf).
func (a *average) observe(c counts, seconds, part float64) {
	now := Rates{float64(c.reads), float64(c.writes), float64(c.bytesOut), float64(c.bytesIn)}
	a.sum = a.sum.times(1-part).add(now, part/seconds)
	a.weight += part * (1 - a.weight)
}

// rates returns the average; zero before the first observation.
func (a *average) rates() Rates {
	if a.weight == 0 {
		return Rates{}
	}
	return a.sum.times(1 / a.weight)
}

// inherit adds a share of another average to a new one.
func (a *average) inherit(o *average, share float64) {
	rates := a.rates().add(o.rates(), share)
	a.weight = max(a.weight, o.weight)
	a.sum = rates.times(a.weight)
}

// weightOf returns the weight of an observation of the given time in an average.
func weightOf(observed, of time.Duration) float64 {
	return -math.Expm1(-float64(observed) / float64(of))
}

// partition is the record of one range. Requests use counter. The other fields are guarded by Meter.mu, except tokens,
// which does not change.
type partition struct {
	counter
	tokens     ring.Range
	last       counts // at the last update of the averages
	fast, slow average
	bytes      int64 // on disk, as measured or inherited
}

// observe updates the averages.
func (p *partition) observe(elapsed time.Duration, fast, slow float64) {
	now := p.now()
	c := now.minus(p.last)
	p.last = now
	p.fast.observe(c, elapsed.Seconds(), fast)
	p.slow.observe(c, elapsed.Seconds(), slow)
}

// inherit adds what a new range takes over from an old one: the averages and bytes in proportion to the tokens that
// both have. Where in its range the load of the old one was is not known. The averages correct themselves within their
// times, and the bytes with the next measurement.
func (p *partition) inherit(old *partition) {
	if share := overlap(p.tokens, old.tokens) / old.tokens.Share(); share > 0 {
		p.fast.inherit(&old.fast, share)
		p.slow.inherit(&old.slow, share)
		p.bytes += int64(float64(old.bytes) * share)
	}
}

// overlap returns the part of the ring that two ranges have in common.
func overlap(a, b ring.Range) (share float64) {
	for _, x := range a.Unwrap() {
		for _, y := range b.Unwrap() {
			if !x.Overlaps(y) {
				continue
			}
			r := ring.Range{Start: max(x.Start, y.Start), End: x.End}
			// An end of MinToken is the end of the ring: the other end is smaller.
			if x.End == ring.MinToken || y.End != ring.MinToken && y.End < x.End {
				r.End = y.End
			}
			share += r.Share()
		}
	}
	return share
}

package histogram

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Timer counts operations, and measures the latencies of one in several: reading the clock costs more than a count. The
// zero value is empty. It is safe for concurrent use. Measuring one operation in 16, for example, leaves the
// percentiles representative, if latencies do not follow a pattern of that length.
type Timer struct {
	count   atomic.Int64
	latency Histogram // of the measured operations
	rate    rate
}

// TimerSummary summarizes a Timer.
type TimerSummary struct {
	Count     int64
	Latency   Percentiles
	PerSecond float64 // exponentially weighted over five minutes
}

// Begin counts an operation and reports whether its latency is to be measured: for the first, and for one in every
// after it. every must be positive.
func (t *Timer) Begin(every int64) bool { return (t.count.Add(1)-1)%every == 0 }

// End adds the latency of a measured operation. now is the time of a monotonic clock. It must follow a Begin that
// returned true.
func (t *Timer) End(took, now time.Duration) {
	t.latency.Add(took)
	t.rate.observe(t.count.Load(), now)
}

// Count returns the number of operations.
func (t *Timer) Count() int64 { return t.count.Load() }

// Latency returns the latencies of the measured operations, which the Timer continues to add.
func (t *Timer) Latency() *Histogram { return &t.latency }

// Summary reads the Timer. now is the time of the clock that End uses.
func (t *Timer) Summary(now time.Duration) TimerSummary {
	count := t.count.Load()
	return TimerSummary{Count: count, Latency: t.latency.Percentiles(), PerSecond: t.rate.observe(count, now)}
}

// The rate is computed every rateTick, with the weights of load averages over rateWindow. The rate after n ticks is the
// sum of the rates of all ticks, each weighted by exp(-age/rateWindow).
const (
	rateTick   = 5 * time.Second
	rateWindow = 5 * time.Minute
)

// rate is the exponentially weighted rate of a growing count. It needs no goroutine: the first operation that is
// measured after a tick computes it.
type rate struct {
	// Read without the lock: usually it is not time yet.
	next      atomic.Int64  // when the rate is computed again, ns; 0 before the first observation
	perSecond atomic.Uint64 // math.Float64bits

	mu    sync.Mutex // held to compute the rate
	begun bool       // it was computed before
	total int64      // the count at that time
}

// observe records the count at a time, and returns the rate per second: 0 until rateTick after the first observation.
// Operations call it with slightly different times; only the first one after a tick changes the rate.
func (r *rate) observe(count int64, now time.Duration) float64 {
	if next := r.next.Load(); next == 0 {
		r.next.CompareAndSwap(0, int64(now+rateTick))
	} else if int64(now) >= next {
		r.compute(count, now)
	}
	return math.Float64frombits(r.perSecond.Load())
}

// compute takes the operations since the last computation into the rate. Ticks without an operation have the rate of
// their whole interval, which is exact for a mean over it.
func (r *rate) compute(count int64, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.next.Load()
	if int64(now) < next {
		return // another goroutine has computed it
	}
	// Several ticks if no operation was measured meanwhile. next is the end of the first tick that is due.
	ticks := 1 + (int64(now)-next)/int64(rateTick)
	seconds := float64(ticks) * rateTick.Seconds()
	rate := float64(count-r.total) / seconds
	if r.begun {
		// old is the weight of the past. The first rate has no past, so it is used unweighted.
		old := math.Exp(-seconds / rateWindow.Seconds())
		rate = old*math.Float64frombits(r.perSecond.Load()) + (1-old)*rate
	}
	r.begun, r.total = true, count
	r.perSecond.Store(math.Float64bits(rate))
	r.next.Store(next + ticks*int64(rateTick))
}

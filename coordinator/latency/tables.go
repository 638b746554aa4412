package latency

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/schema"
)

// samplesKept is the number of a table's last reads from which the percentile is computed, refreshAfter the number of
// new reads after which it is computed again. afterFirst is how long a read waits before it speculates while there
// are too few samples: longer than a healthy replica takes, and short for a client.
const (
	samplesKept  = 256
	refreshAfter = 64
	afterFirst   = 25 * time.Millisecond
)

// Tables contains the durations of each table's reads. The zero value is empty.
type Tables struct{ m sync.Map } // schema.StorageID → *tableLatency

// tableLatency contains the durations of one table's reads, and the time of speculative requests by the table's policy.
type tableLatency struct {
	option atomic.Pointer[speculation]
	after  atomic.Int64 // nanoseconds

	mu      sync.Mutex
	samples [samplesKept]uint32 // µs
	n       int                 // recorded so far
}

// speculation is the parsed option of a table.
type speculation struct {
	text          string
	policy        policy // nil when always or never
	always, never bool
}

// of returns the state of a table with its present policy.
func (ts *Tables) of(table *schema.Table) *tableLatency {
	v, ok := ts.m.Load(table.StorageID)
	if !ok {
		v, _ = ts.m.LoadOrStore(table.StorageID, new(tableLatency))
	}
	l := v.(*tableLatency)
	// ALTER TABLE has changed the option. Two readers may both parse it, with the same result.
	if o := l.option.Load(); o == nil || o.text != table.Options.SpeculativeRetry {
		o = &speculation{text: table.Options.SpeculativeRetry}
		o.policy, o.always, o.never = parsePolicy(o.text)
		l.mu.Lock()
		l.option.Store(o)
		l.refreshLocked()
		l.mu.Unlock()
	}
	return l
}

// Always reports whether a read of the table always asks one additional replica.
func (ts *Tables) Always(table *schema.Table) bool { return ts.of(table).option.Load().always }

// After returns how long a read of the table waits before it asks one additional replica; false means that it never
// does.
func (ts *Tables) After(table *schema.Table) (time.Duration, bool) {
	l := ts.of(table)
	if o := l.option.Load(); o.never || o.always {
		return 0, false
	}
	return time.Duration(l.after.Load()), true
}

// AskOthersAfter returns how long a request that asks no additional replicas, whatever the option, waits before it asks
// the others; false means that it never does. With ALWAYS the time is minimal: an immediate answer needs no others.
func (ts *Tables) AskOthersAfter(table *schema.Table) (time.Duration, bool) {
	after, ok := ts.After(table)
	return max(after, time.Millisecond), ok || ts.Always(table)
}

// Record adds a read's duration to the samples.
func (ts *Tables) Record(table *schema.Table, d time.Duration) {
	l := ts.of(table)
	l.mu.Lock()
	// A ring buffer: the newest sample replaces the oldest.
	l.samples[l.n%samplesKept] = uint32(min(d.Microseconds(), math.MaxUint32))
	l.n++
	if l.n%refreshAfter == 0 {
		l.refreshLocked()
	}
	l.mu.Unlock()
}

// refreshLocked computes the time of speculative requests from the samples. The option is set: of has returned l.
func (l *tableLatency) refreshLocked() {
	// A copy is sorted, because the buffer is in order of time.
	sorted := slices.Clone(l.samples[:min(l.n, samplesKept)])
	slices.Sort(sorted)
	if p := l.option.Load().policy; p != nil {
		l.after.Store(int64(p(sorted)))
	}
}

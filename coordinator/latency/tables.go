package latency

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/schema"
)

// samplesKept is how many of a table's last reads the percentile is taken of, refreshAfter after how many
// new ones it is taken again, and afterFirst how long a read waits before it speculates while there are
// too few: long for a healthy replica, short for a client.
const (
	samplesKept  = 256
	refreshAfter = 64
	afterFirst   = 25 * time.Millisecond
)

// Tables is how long reads of each table took. The zero value knows of none.
type Tables struct{ m sync.Map } // schema.StorageID → *tableLatency

// tableLatency is how long reads of one table took, and when the table's policy speculates.
type tableLatency struct {
	option atomic.Pointer[speculation]
	after  atomic.Int64 // nanoseconds

	mu      sync.Mutex
	samples [samplesKept]uint32 // µs
	n       int                 // recorded so far
}

// speculation is a table's option, parsed.
type speculation struct {
	text          string
	policy        policy // nil when always or never
	always, never bool
}

// of is the state of a table, its policy up to date.
func (ts *Tables) of(table *schema.Table) *tableLatency {
	v, ok := ts.m.Load(table.StorageID)
	if !ok {
		v, _ = ts.m.LoadOrStore(table.StorageID, new(tableLatency))
	}
	l := v.(*tableLatency)
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

// Always says whether a read of the table asks one replica more from the beginning.
func (ts *Tables) Always(table *schema.Table) bool { return ts.of(table).option.Load().always }

// After is how long a read of the table waits before it asks one replica more; false when it never
// does.
func (ts *Tables) After(table *schema.Table) (time.Duration, bool) {
	l := ts.of(table)
	if o := l.option.Load(); o.never || o.always {
		return 0, false
	}
	return time.Duration(l.after.Load()), true
}

// Patience is how long one that asked no more than it must, whatever the option, waits before it asks the others;
// false when it never does. With ALWAYS that is hardly any time: an answer on the spot needs no others.
func (ts *Tables) Patience(table *schema.Table) (time.Duration, bool) {
	after, ok := ts.After(table)
	return max(after, time.Millisecond), ok || ts.Always(table)
}

// Record takes one read's time into the sample.
func (ts *Tables) Record(table *schema.Table, d time.Duration) {
	l := ts.of(table)
	l.mu.Lock()
	l.samples[l.n%samplesKept] = uint32(min(d.Microseconds(), math.MaxUint32))
	l.n++
	if l.n%refreshAfter == 0 {
		l.refreshLocked()
	}
	l.mu.Unlock()
}

func (l *tableLatency) refreshLocked() {
	sorted := slices.Clone(l.samples[:min(l.n, samplesKept)])
	slices.Sort(sorted)
	if p := l.option.Load().policy; p != nil {
		l.after.Store(int64(p(sorted)))
	}
}

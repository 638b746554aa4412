package coordinator

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cqld/ring"
	"cqld/schema"
)

// latencySamples is how many of a table's last reads the percentile is taken of, latencyRefresh
// after how many new ones it is taken again, and latencyFirst how long a read waits before it
// speculates while there are too few: long for a healthy replica, short for a client.
const (
	latencySamples = 256
	latencyRefresh = 64
	latencyFirst   = 25 * time.Millisecond
)

// tableLatency is how long reads of one table took, and when the table's policy speculates.
type tableLatency struct {
	option atomic.Pointer[speculation]
	after  atomic.Int64 // nanoseconds

	mu      sync.Mutex
	samples [latencySamples]uint32 // µs
	n       int                    // recorded so far
}

// speculation is a table's option, parsed.
type speculation struct {
	text          string
	policy        policy // nil when always or never
	always, never bool
}

// latencyOf is the state of a table, its policy up to date.
func (c *Coordinator) latencyOf(table *schema.Table) *tableLatency {
	v, ok := c.tables.Load(table.StorageID)
	if !ok {
		v, _ = c.tables.LoadOrStore(table.StorageID, new(tableLatency))
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

// speculatesAlways says whether one replica more is asked from the beginning.
func (c *Coordinator) speculatesAlways(table *schema.Table) bool {
	return c.latencyOf(table).option.Load().always
}

// speculateAfter is how long a read of the table waits before it asks one replica more; false when
// it never does.
func (c *Coordinator) speculateAfter(table *schema.Table) (time.Duration, bool) {
	l := c.latencyOf(table)
	if o := l.option.Load(); o.never || o.always {
		return 0, false
	}
	return time.Duration(l.after.Load()), true
}

// recordRead takes one read's time into the sample.
func (c *Coordinator) recordRead(table *schema.Table, d time.Duration) {
	l := c.latencyOf(table)
	l.mu.Lock()
	l.samples[l.n%latencySamples] = uint32(min(d.Microseconds(), math.MaxUint32))
	l.n++
	if l.n%latencyRefresh == 0 {
		l.refreshLocked()
	}
	l.mu.Unlock()
}

func (l *tableLatency) refreshLocked() {
	sorted := slices.Clone(l.samples[:min(l.n, latencySamples)])
	slices.Sort(sorted)
	if p := l.option.Load().policy; p != nil {
		l.after.Store(int64(p(sorted)))
	}
}

// policy is when to speculate, given sorted samples (µs).
type policy func(sorted []uint32) time.Duration

func isNever(s string) bool {
	u := strings.ToUpper(strings.TrimSpace(s))
	return u == "NEVER" || u == "NONE"
}

// parsePolicy reads '99p', '99percentile', '50ms', ALWAYS, NEVER, NONE, MIN(a,b), MAX(a,b). What it
// cannot read never speculates: options were validated when the table was made.
func parsePolicy(s string) (p policy, always, never bool) {
	u := strings.ToUpper(strings.TrimSpace(s))
	switch {
	case u == "ALWAYS":
		return nil, true, false
	case isNever(s):
		return nil, false, true
	}
	for name, pick := range map[string]func(a, b time.Duration) time.Duration{
		"MIN(": func(a, b time.Duration) time.Duration { return min(a, b) },
		"MAX(": func(a, b time.Duration) time.Duration { return max(a, b) },
	} {
		inner, ok := strings.CutPrefix(u, name)
		if !ok || !strings.HasSuffix(inner, ")") {
			continue
		}
		a, b, ok := strings.Cut(strings.TrimSuffix(inner, ")"), ",")
		if !ok {
			break
		}
		if pa, pb := parseSimple(a), parseSimple(b); pa != nil && pb != nil {
			return func(sorted []uint32) time.Duration { return pick(pa(sorted), pb(sorted)) }, false, false
		}
	}
	if p = parseSimple(u); p == nil {
		return nil, false, true
	}
	return p, false, false
}

// parseSimple reads '99P', '99PERCENTILE' or '50MS'; nil when s is neither.
func parseSimple(s string) policy {
	s = strings.TrimSpace(s)
	if digits, ok := strings.CutSuffix(s, "MS"); ok {
		ms, err := strconv.ParseFloat(digits, 64)
		if err != nil || ms < 0 || ms > 1e9 {
			return nil
		}
		return func([]uint32) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	}
	digits, ok := strings.CutSuffix(s, "PERCENTILE")
	if !ok {
		if digits, ok = strings.CutSuffix(s, "P"); !ok {
			return nil
		}
	}
	percent, err := strconv.ParseFloat(digits, 64)
	if err != nil || percent <= 0 || percent >= 100 {
		return nil
	}
	return func(sorted []uint32) time.Duration {
		if len(sorted) < latencyRefresh {
			return latencyFirst
		}
		return time.Duration(sorted[int(percent/100*float64(len(sorted)))]) * time.Microsecond
	}
}

// peerLatencies is a moving average of how long each node takes to answer reads.
type peerLatencies struct{ nodes sync.Map } // ring.NodeID → *peerLatency

type peerLatency struct{ average, updated atomic.Int64 } // nanoseconds

// latencyHalfLife is how fast an average that is not renewed falls: a node that was slow is tried
// again.
const latencyHalfLife = 10 * time.Second

// record takes one answer's time: an eighth of the average is the newest.
func (p *peerLatencies) record(node ring.NodeID, d, now time.Duration) {
	v, ok := p.nodes.Load(node)
	if !ok {
		v, _ = p.nodes.LoadOrStore(node, new(peerLatency))
	}
	l := v.(*peerLatency)
	if old := l.average.Load(); old != 0 {
		d = (7*time.Duration(old) + d) / 8 // two at once may lose one: no harm
	}
	l.average.Store(int64(d))
	l.updated.Store(int64(now))
}

// of is the average; 0 for a node not met yet, so that it is tried.
func (p *peerLatencies) of(node ring.NodeID, now time.Duration) time.Duration {
	v, ok := p.nodes.Load(node)
	if !ok {
		return 0
	}
	l := v.(*peerLatency)
	age := max(now-time.Duration(l.updated.Load()), 0)
	return time.Duration(l.average.Load()) >> min(age/latencyHalfLife, 62)
}

// latencyStep is how much faster a node must be to be preferred: small differences would make all
// coordinators prefer the same replica, and then the next.
const latencyStep = 500 * time.Microsecond

// sortByProximity puts this node first, then those of its data center, each by latency.
func (c *Coordinator) sortByProximity(t *ring.Topology, self ring.NodeID, targets []*readTarget) {
	now := c.clock.Monotonic()
	rank := func(x *readTarget) int64 {
		if x.node == self {
			return -1
		}
		r := int64(c.latency.of(x.node, now) / latencyStep)
		if n := t.Node(x.node); n == nil || n.Datacenter != c.localDC {
			r += math.MaxInt32
		}
		return r
	}
	for i := 1; i < len(targets); i++ { // few, and mostly in order: insertion
		for k := i; k > 0 && rank(targets[k]) < rank(targets[k-1]); k-- {
			targets[k], targets[k-1] = targets[k-1], targets[k]
		}
	}
}

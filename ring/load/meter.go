package load

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/schema"
)

// Host describes the machine of a node. Zero fields are unknown.
type Host struct {
	CPU                 float64 // processor time of the process per second: 1 is one core
	DiskFree, DiskTotal int64   // bytes of the file system of the data directory
}

// Options configure New.
type Options struct {
	Clock env.Clock
	// CPU returns the processor time of this process so far. It must not block. nil means that it is unknown.
	CPU func() time.Duration
}

// Meter measures the ranges of one node. Read and Write are for requests: they take no lock, and a nil Meter counts
// nothing. All methods are safe for concurrent use.
type Meter struct {
	o      Options
	layout atomic.Pointer[layout]
	sketch sketch

	mu      sync.Mutex
	retired []retired
	gone    counts // of the ranges that the node no longer has
	beat    time.Duration
	host    Host
	cpu     time.Duration // at the last beat
	started bool          // beat and cpu are set
}

// retired is the record of a range that the node no longer has, whose last requests may still be counted. It is kept
// for two beats.
type retired struct {
	*partition
	beats int
}

// New returns a Meter of a node that has not seen a ring: all requests are counted together.
func New(o Options) *Meter {
	m := &Meter{o: o}
	m.layout.Store(newLayout(nil, &partition{}))
	return m
}

// Read counts a read of a partition, or of a range of tokens that ends at token. bytes is the size of the page. key is
// nil if it should not count among the busiest keys; it is not kept.
func (m *Meter) Read(table schema.StorageID, token ring.Token, key []byte, bytes int) {
	if m == nil {
		return
	}
	p := m.layout.Load().of(token)
	n := p.reads.Add(1)
	p.bytesOut.Add(uint64(bytes))
	if key != nil && enters(n) {
		m.sketch.add(table, token, key, Charge(1, 0, float64(bytes), 0), false)
	}
}

// Write counts a mutation of a partition. bytes is its size. key is as for Read.
func (m *Meter) Write(table schema.StorageID, token ring.Token, key []byte, bytes int) {
	if m == nil {
		return
	}
	p := m.layout.Load().of(token)
	n := p.writes.Add(1)
	p.bytesIn.Add(uint64(bytes))
	if key != nil && enters(n) {
		m.sketch.add(table, token, key, Charge(0, 1, 0, float64(bytes)), true)
	}
}

// SetRing makes the meter follow a ring whose ranges end at bounds, which are ascending and must not change. holds
// reports whether this node is a replica of the range with an index in bounds.
func (m *Meter) SetRing(bounds []ring.Token, holds func(i int) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.layout.Load()
	next := newLayout(bounds, before.rest)
	for _, p := range next.follow(before, holds) {
		m.retired = append(m.retired, retired{partition: p})
	}
	m.layout.Store(next)
}

// Held returns the ranges that this node holds, in the order of their ends. The caller owns the slice.
func (m *Meter) Held() []ring.Range {
	l := m.layout.Load()
	out := make([]ring.Range, len(l.held))
	for i, at := range l.held {
		out[i] = l.at[at].tokens
	}
	return out
}

// SetBytes sets the bytes on disk of ranges. Ranges that the node no longer holds are ignored.
func (m *Meter) SetBytes(bytes map[ring.Range]int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.layout.Load()
	for _, at := range l.held {
		if n, ok := bytes[l.at[at].tokens]; ok {
			l.at[at].bytes = n
		}
	}
}

// Beat updates the averages if averageEvery has passed since the last update. The owner calls it often.
func (m *Meter) Beat() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.o.Clock.Monotonic()
	elapsed := now - m.beat
	if m.started && elapsed < averageEvery {
		return
	}
	began := m.started
	m.beat, m.started = now, true
	m.observeCPU(elapsed, began)
	l := m.layout.Load()
	// The first beat only begins the interval of the second one.
	if !began {
		for _, at := range l.held {
			l.at[at].last = l.at[at].now()
		}
		l.rest.last = l.rest.now()
		return
	}
	fast, slow := weightOf(elapsed, Fast), weightOf(elapsed, Slow)
	for _, at := range l.held {
		l.at[at].observe(elapsed, fast, slow)
	}
	l.rest.observe(elapsed, fast, slow)
	m.sketch.decay(elapsed)
	m.forgetRetired()
}

// observeCPU measures the processor time per second. The caller holds mu.
func (m *Meter) observeCPU(elapsed time.Duration, began bool) {
	if m.o.CPU == nil {
		return
	}
	cpu := m.o.CPU()
	if began {
		used := (cpu - m.cpu).Seconds() / elapsed.Seconds()
		// The first interval is the average.
		if m.host.CPU > 0 {
			used = m.host.CPU + (used-m.host.CPU)*weightOf(elapsed, Fast)
		}
		m.host.CPU = used
	}
	m.cpu = cpu
}

// SetDisk sets the free and all bytes of the file system with the data.
func (m *Meter) SetDisk(free, total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.DiskFree, m.host.DiskTotal = free, total
}

// forgetRetired adds the counts of ranges that the node no longer has to gone, after two beats: requests that have
// found the old layout have counted by then. The caller holds mu.
func (m *Meter) forgetRetired() {
	m.retired = slices.DeleteFunc(m.retired, func(r retired) bool { return r.beats > 0 && m.absorb(r.partition) })
	for i := range m.retired {
		m.retired[i].beats++
	}
}

// absorb adds the counts of a range to gone. It returns true.
func (m *Meter) absorb(p *partition) bool {
	m.gone = m.gone.plus(p.now())
	return true
}

// Totals are the requests of a node since it started.
type Totals struct{ Reads, Writes, BytesOut, BytesIn uint64 }

// Figures are the measurements of a range, or their sums over ranges. Fast and Slow are averages.
type Figures struct {
	Bytes      int64 // on disk
	Fast, Slow Rates
}

// plus returns the sum.
func (f Figures) plus(o Figures) Figures {
	return Figures{f.Bytes + o.Bytes, f.Fast.plus(o.Fast), f.Slow.plus(o.Slow)}
}

// Range is a range that a node holds, with its measurements on this node.
type Range struct {
	Tokens ring.Range
	Figures
	Hottest *Key // nil if no key is known that causes a substantial part of the charge
}

// Snapshot contains the measurements of a node at one time.
type Snapshot struct {
	Host   Host
	Totals Totals
	Sum    Figures // of Ranges, and of the requests for other ranges
	Ranges []Range // in the order of their ends
	// Keys are the busiest partition keys of the node, in the order of their charges.
	Keys []Key
	// Dropped is the number of samples that did not enter Keys.
	Dropped int64
}

// Snapshot returns the measurements of this node. Averages are as of the last beat.
func (m *Meter) Snapshot() *Snapshot {
	s, _ := m.snapshot()
	return s
}

// snapshot returns the measurements and the layout that they belong to.
func (m *Meter) snapshot() (*Snapshot, *layout) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.layout.Load()
	s := &Snapshot{Host: m.host, Dropped: m.sketch.dropped.Load(), Keys: m.sketch.top()}
	slices.SortFunc(s.Keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Charge, a.Charge), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Table, b.Table))
	})
	all := m.gone
	for _, r := range m.retired {
		all = all.plus(r.now())
	}
	add := func(p *partition) Figures {
		all = all.plus(p.now())
		f := Figures{p.bytes, p.fast.rates(), p.slow.rates()}
		s.Sum = s.Sum.plus(f)
		return f
	}
	s.Ranges = make([]Range, len(l.held))
	for i, at := range l.held {
		s.Ranges[i] = Range{Tokens: l.at[at].tokens, Figures: add(l.at[at])}
	}
	add(l.rest)
	s.Totals = Totals{all.reads, all.writes, all.bytesOut, all.bytesIn}
	s.findHottest(l)
	return s, l
}

// findHottest sets Hottest of the ranges. Keys are sorted, so the first key of a range is its hottest.
func (s *Snapshot) findHottest(l *layout) {
	for i := range s.Keys {
		k := &s.Keys[i]
		if len(l.held) == 0 {
			return
		}
		at, ok := slices.BinarySearch(l.held, l.index(k.Token))
		if !ok || s.Ranges[at].Hottest != nil {
			continue
		}
		// Without charge, the share of the key would be 0/0.
		if all := s.Ranges[at].Fast.Charge(); all <= 0 || k.Charge < hotShareMin*all {
			continue
		}
		s.Ranges[at].Hottest = k
	}
}

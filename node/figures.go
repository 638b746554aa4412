package node

import (
	"maps"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"cqld/node/control"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// measured is the storage engine as this node's replica uses it, with counts by table and, while an
// operator looks, of partitions.
type measured struct {
	*storage.Engine
	mu     sync.Mutex // of those who change tables
	tables atomic.Pointer[map[schema.StorageID]*tableFigures]
	sample atomic.Pointer[sample] // nil: nobody looks
}

// tableFigures are what one table was asked for since the node started.
type tableFigures struct {
	reads, writes atomic.Int64
	latency       histogram // of reads
}

// readsMeasured is how many reads there are for one whose time is taken: looking at the clock twice
// costs a tenth of a small read.
const readsMeasured = 8

func newMeasured(e *storage.Engine) *measured {
	m := &measured{Engine: e}
	m.tables.Store(&map[schema.StorageID]*tableFigures{})
	return m
}

// of is the figures of a table. It allocates only when it sees a table for the first time.
func (m *measured) of(id schema.StorageID) *tableFigures {
	if f := (*m.tables.Load())[id]; f != nil {
		return f
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := (*m.tables.Load())[id]; f != nil {
		return f
	}
	now := maps.Clone(*m.tables.Load())
	now[id] = &tableFigures{}
	m.tables.Store(&now)
	return now[id]
}

// forget drops the figures of a table that is gone.
func (m *measured) forget(id schema.StorageID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := maps.Clone(*m.tables.Load())
	delete(now, id)
	m.tables.Store(&now)
}

// Apply implements replica.Engine.
func (m *measured) Apply(mutations []*row.Mutation, durable bool, done func(error)) error {
	m.countWrites(mutations)
	return m.Engine.Apply(mutations, durable, done)
}

// Queue implements what replica.Local.Decide uses.
func (m *measured) Queue(mutations []*row.Mutation, durable bool, done func(error)) error {
	m.countWrites(mutations)
	return m.Engine.Queue(mutations, durable, done)
}

func (m *measured) countWrites(mutations []*row.Mutation) {
	s := m.sample.Load()
	for _, mu := range mutations {
		m.of(mu.Table).writes.Add(1)
		if s != nil && s.table == mu.Table {
			s.writes.add(mu.Key.Bytes)
		}
	}
}

// Read implements replica.Engine.
func (m *measured) Read(dst []byte, cmd *row.ReadCommand) ([]byte, error) {
	f := m.of(cmd.Table)
	if s := m.sample.Load(); s != nil && s.table == cmd.Table && cmd.SinglePartition() {
		s.reads.add(cmd.Key.Bytes)
	}
	if f.reads.Add(1)%readsMeasured != 0 {
		return m.Engine.Read(dst, cmd)
	}
	begin := time.Now()
	page, err := m.Engine.Read(dst, cmd)
	f.latency.add(time.Since(begin))
	return page, err
}

// histogram counts durations in classes a quarter of an octave wide: percentiles are 12 % off at
// most. Adding is one atomic addition or two.
type histogram struct {
	classes [64 * 4]atomic.Int64
	sum     atomic.Int64
}

func (h *histogram) add(d time.Duration) {
	h.classes[class(d)].Add(1)
	h.sum.Add(int64(d))
}

// class is the octave of d and the two bits below its highest.
func class(d time.Duration) int {
	v := uint64(max(d, 1))
	octave := bits.Len64(v) - 1
	if octave < 2 {
		return octave * 4
	}
	return octave*4 + int(v>>(octave-2)&3)
}

// middle is the middle of a class.
func middle(c int) time.Duration {
	octave, part := c/4, c%4
	if octave < 2 {
		return 1 << octave
	}
	return time.Duration((uint64(4+part)<<1 + 1) << (octave - 2) >> 1)
}

// percentiles reads the histogram; what is added meanwhile may be in it or not.
func (h *histogram) percentiles() (p control.Percentiles) {
	var counts [len(h.classes)]int64
	for c := range h.classes {
		counts[c] = h.classes[c].Load()
		p.Count += counts[c]
	}
	at := func(share float64) time.Duration {
		want := int64(share*float64(p.Count)) + 1
		for c, n := range counts {
			if want -= n; want <= 0 {
				return middle(c)
			}
		}
		return p.Max
	}
	for c, n := range counts {
		if n > 0 {
			if p.Min == 0 {
				p.Min = middle(c)
			}
			p.Max = middle(c)
		}
	}
	if p.Count > 0 {
		p.P50, p.P75, p.P95, p.P98, p.P99 = at(.50), at(.75), at(.95), at(.98), at(.99)
	}
	return p
}

// octaves counts, for each octave from 2^first to 2^last nanoseconds, what took no longer, in seconds as Prometheus wants
// them; and all there was, with its sum.
func (h *histogram) octaves(first, last int) (upTo map[float64]uint64, count uint64, sum time.Duration) {
	upTo = make(map[float64]uint64, last-first+1)
	for c := range h.classes {
		if octave := c / 4; c%4 == 0 && octave >= first && octave <= last {
			upTo[(time.Duration(1) << octave).Seconds()] = count
		}
		count += uint64(h.classes[c].Load())
	}
	return upTo, count, time.Duration(h.sum.Load())
}

// mean is the mean of all that was added; zero when nothing was.
func (h *histogram) mean() time.Duration {
	var count int64
	for c := range h.classes {
		count += h.classes[c].Load()
	}
	if count == 0 {
		return 0
	}
	return time.Duration(h.sum.Load() / count)
}

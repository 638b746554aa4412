package node

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/histogram"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// measured wraps the storage engine that this node's replica uses. It counts requests by table and, during a toppartitions
// command, by partition.
type measured struct {
	*storage.Engine
	mu     sync.Mutex // held to add or remove tables
	tables atomic.Pointer[map[schema.StorageID]*tableFigures]
	sample atomic.Pointer[sample] // nil: no sampling is running
}

// tableFigures counts the requests of one table since the node started.
type tableFigures struct {
	reads, writes atomic.Int64
	latency       histogram.Histogram // of reads
}

func newMeasured(e *storage.Engine) *measured {
	m := &measured{Engine: e}
	m.tables.Store(&map[schema.StorageID]*tableFigures{})
	return m
}

// of returns the figures of a table. It allocates only at the first request of a table.
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

// forget drops the figures of a dropped table.
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

// Queue implements replica.Engine.
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
	if (f.reads.Add(1)-1)%request.SampledReads != 0 { // the first read is measured, so each table read has a latency
		return m.Engine.Read(dst, cmd)
	}
	begin := time.Now()
	page, err := m.Engine.Read(dst, cmd)
	f.latency.Add(time.Since(begin))
	return page, err
}

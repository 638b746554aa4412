package node

import (
	"maps"
	"sync"
	"sync/atomic"

	"cqld/internal/env"
	"cqld/internal/histogram"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// measured wraps the storage engine that this node's replica uses. It counts requests by table and, during a
// toppartitions command, by partition.
type measured struct {
	*storage.Engine
	clock  env.Clock
	mu     sync.Mutex // held to add or remove tables
	tables atomic.Pointer[map[schema.StorageID]*tableFigures]
	sample atomic.Pointer[sample] // nil: no sampling is running
}

// tableFigures are the statistics of one table since the node started.
type tableFigures struct {
	coordinator request.TableStats // of requests of this node's clients

	// Of this node as a replica.
	read, scan, write histogram.Timer
	rows, tombstones  histogram.Counts // of the measured reads and scans
}

func newMeasured(e *storage.Engine, clock env.Clock) *measured {
	m := &measured{Engine: e, clock: clock}
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

// lookUp returns the figures of a table, or nil if it had no request.
func (m *measured) lookUp(id schema.StorageID) *tableFigures { return (*m.tables.Load())[id] }

// coordinated returns the statistics of the coordinator for a table.
func (m *measured) coordinated(id schema.StorageID) *request.TableStats { return &m.of(id).coordinator }

// Apply implements replica.Engine.
func (m *measured) Apply(mutations []*row.Mutation, durable bool, done func(error)) error {
	return m.Engine.Apply(mutations, durable, m.countWrites(mutations, done))
}

// Queue implements replica.Engine.
func (m *measured) Queue(mutations []*row.Mutation, durable bool, done func(error)) error {
	return m.Engine.Queue(mutations, durable, m.countWrites(mutations, done))
}

// countWrites counts mutations. It returns done or, if their latency is measured, what measures it and calls done.
func (m *measured) countWrites(mutations []*row.Mutation, done func(error)) func(error) {
	s := m.sample.Load()
	var timed *histogram.Timer
	for _, mu := range mutations {
		if t := &m.of(mu.Table).write; t.Begin(request.SampledReads) {
			timed = t
		}
		if s != nil && s.table == mu.Table {
			s.writes.add(mu.Key.Bytes)
		}
	}
	if timed == nil || done == nil {
		return done
	}
	began := m.clock.Monotonic()
	return func(err error) {
		now := m.clock.Monotonic()
		timed.End(now-began, now)
		done(err)
	}
}

// Read implements replica.Engine.
func (m *measured) Read(dst []byte, cmd *row.ReadCommand) ([]byte, error) {
	f := m.of(cmd.Table)
	t := &f.read
	if !cmd.SinglePartition() {
		t = &f.scan
	} else if s := m.sample.Load(); s != nil && s.table == cmd.Table {
		s.reads.add(cmd.Key.Bytes)
	}
	if !t.Begin(request.SampledReads) {
		return m.Engine.Read(dst, cmd)
	}
	began := m.clock.Monotonic()
	page, n, err := m.Engine.ReadCounted(dst, cmd)
	now := m.clock.Monotonic()
	t.End(now-began, now)
	f.rows.Add(n.Rows)
	f.tombstones.Add(n.Tombstones)
	return page, err
}

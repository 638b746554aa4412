package tablestats

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

// Engine wraps the storage engine that this node's replica uses. It counts requests by table and, during a
// toppartitions command, by partition. The map of tables is copied when a table is added, so that the path of a request
// needs no lock: a load, a lookup and an atomic addition. Other methods are inherited from the storage engine.
type Engine struct {
	*storage.Engine
	clock  env.Clock
	mu     sync.Mutex // held to add or remove tables
	tables atomic.Pointer[map[schema.StorageID]*Table]
	sample atomic.Pointer[Sample] // nil: no sampling is running
}

// Table are the statistics of one table since the node started. It is safe for concurrent use: every field consists of
// atomic counters. It stays in use by requests in flight after ForgetTable.
type Table struct {
	Coordinator request.TableStats // of requests of this node's clients

	// Of this node as a replica. Read is of single partitions and Scan of ranges, as Cassandra's ReadLatency and
	// RangeLatency. They count all, and measure one in request.SampledReads.
	Read, Scan, Write histogram.Timer
	Rows, Tombstones  histogram.Counts // of the measured reads and scans
}

// NewEngine wraps e. clock measures latencies. The result owns nothing of e, which the caller closes.
func NewEngine(e *storage.Engine, clock env.Clock) *Engine {
	m := &Engine{Engine: e, clock: clock}
	m.tables.Store(&map[schema.StorageID]*Table{})
	return m
}

// Of returns the statistics of a table. It allocates only at the first request of a table.
func (m *Engine) Of(id schema.StorageID) *Table {
	if f := (*m.tables.Load())[id]; f != nil {
		return f
	}
	// Another goroutine may have added the table between the lookup and the lock.
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := (*m.tables.Load())[id]; f != nil {
		return f
	}
	now := maps.Clone(*m.tables.Load())
	now[id] = &Table{}
	m.tables.Store(&now)
	return now[id]
}

// ForgetTable drops the figures of a dropped table. A request in flight may add the table again, with a few counts that
// nothing shows: tables are listed by the schema.
func (m *Engine) ForgetTable(id schema.StorageID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := maps.Clone(*m.tables.Load())
	delete(now, id)
	m.tables.Store(&now)
}

// LookUp returns the statistics of a table, or nil if it had no request. Unlike Of, it never adds a table.
func (m *Engine) LookUp(id schema.StorageID) *Table { return (*m.tables.Load())[id] }

// Coordinated returns the statistics of the coordinator for a table. It is the function that package request calls for
// each request of a client.
func (m *Engine) Coordinated(id schema.StorageID) *request.TableStats { return &m.Of(id).Coordinator }

// Apply implements replica.Engine. The count rises when the mutation is applied to storage, whether it succeeds or not.
func (m *Engine) Apply(mutations []*row.Mutation, durable bool, done func(error)) error {
	return m.Engine.Apply(mutations, durable, m.countWrites(mutations, done))
}

// Queue implements replica.Engine. It counts like Apply.
func (m *Engine) Queue(mutations []*row.Mutation, durable bool, done func(error)) error {
	return m.Engine.Queue(mutations, durable, m.countWrites(mutations, done))
}

// countWrites counts mutations. It returns done or, if the latency of some is measured, a function that measures it for
// their tables and calls done, which may be nil.
func (m *Engine) countWrites(mutations []*row.Mutation, done func(error)) func(error) {
	s := m.sample.Load()
	// Most calls have one mutation, so the second and later ones are apart: a call allocates one function at most.
	var timed *histogram.Timer
	var others []*histogram.Timer
	for _, mu := range mutations {
		// Each mutation whose Begin returns true is measured. Tables that are always written together, such as a table
		// and its view, have equal counts: their samples are in the same calls.
		if t := &m.Of(mu.Table).Write; t.Begin(request.SampledReads) {
			if timed == nil {
				timed = t
			} else {
				others = append(others, t)
			}
		}
		if s != nil && s.table == mu.Table {
			s.Writes.add(mu.Key.Bytes)
		}
	}
	if timed == nil {
		return done
	}
	began := m.clock.Monotonic()
	return func(err error) {
		// Timer needs the end's time as well, for its decaying rates.
		now := m.clock.Monotonic()
		timed.End(now-began, now)
		for _, t := range others {
			t.End(now-began, now)
		}
		if done != nil {
			done(err)
		}
	}
}

// Read implements replica.Engine. ReadCounted is slower, because it counts rows and tombstones of the page; only
// sampled reads use it. An error is measured like a success.
func (m *Engine) Read(dst []byte, cmd *row.ReadCommand) ([]byte, error) {
	f := m.Of(cmd.Table)
	t := &f.Read
	if !cmd.SinglePartition() {
		t = &f.Scan
	} else if s := m.sample.Load(); s != nil && s.table == cmd.Table {
		s.Reads.add(cmd.Key.Bytes)
	}
	if !t.Begin(request.SampledReads) {
		return m.Engine.Read(dst, cmd)
	}
	began := m.clock.Monotonic()
	page, n, err := m.Engine.ReadCounted(dst, cmd)
	now := m.clock.Monotonic()
	t.End(now-began, now)
	f.Rows.Add(n.Rows)
	f.Tombstones.Add(n.Tombstones)
	return page, err
}

package index

import (
	"encoding/binary"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/tableinfo"
)

var (
	seedFlag = flag.Uint64("seed", 0, "run the randomized test with this seed only")
	opsFlag  = flag.Int("ops", 1500, "operations of each randomized run")
)

const testTable schema.StorageID = 1024

// testClock stands still until it is advanced. Its timers never fire.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func newTestClock() *testClock { return &testClock{now: time.Unix(1_000_000, 0)} }

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *testClock) Monotonic() time.Duration              { return c.Now().Sub(time.Unix(0, 0)) }
func (c *testClock) After(time.Duration, func()) env.Timer { return noTimer{} }

type noTimer struct{}

func (noTimer) Stop() bool { return true }

// engine is a storage engine with its partition index.
type engine struct {
	*storage.Engine
	index *Partitions
}

func always(id schema.StorageID) bool { return id == testTable }

// open opens an engine whose partition index ordered asks for; Dir, FS, Clock and Table may be left out of o.
func open(t testing.TB, o storage.Options, ordered func(schema.StorageID) bool) *engine {
	t.Helper()
	if o.Dir == "" {
		o.Dir = "db"
	}
	if o.FS == nil {
		o.FS = vfs.NewMem()
	}
	if o.Clock == nil {
		o.Clock = newTestClock()
	}
	o.NoSweep = true // the models must know when rows are purged
	e := &engine{index: NewPartitions(ordered)}
	Maintain(&o, e.index)
	var err error
	if e.Engine, err = storage.Open(o); err != nil {
		t.Fatal(err)
	}
	return e
}

// plain opens an engine without an index.
func plain(t testing.TB, o storage.Options) *engine {
	return open(t, o, func(schema.StorageID) bool { return false })
}

func tables(gc tableinfo.GCMode) func(schema.StorageID) tableinfo.Info {
	return func(id schema.StorageID) tableinfo.Info { return tableinfo.Info{Exists: id == testTable, GC: gc} }
}

// apply applies mutations and waits.
func apply(e *engine, ms ...*row.Mutation) error {
	done := make(chan error, 1)
	if err := e.Apply(ms, true, func(err error) { done <- err }); err != nil {
		return err
	}
	return <-done
}

func mustApply(t testing.TB, e *engine, ms ...*row.Mutation) {
	t.Helper()
	if err := apply(e, ms...); err != nil {
		t.Fatal(err)
	}
}

func mustQueue(t testing.TB, e *engine, m *row.Mutation) {
	t.Helper()
	if err := e.Apply([]*row.Mutation{m}, false, func(error) {}); err != nil {
		t.Fatal(err)
	}
}

// clusteringOf is an ordered form of n as package types makes them: no component begins with 00 or FF.
func clusteringOf(n int) []byte { return binary.BigEndian.AppendUint32([]byte{0x80}, uint32(n)) }

// putRow is a mutation that inserts one row.
func putRow(key string, n int, timestamp int64, value string) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(testTable, row.NewPartitionKey([]byte(key)))
	r := row.NewRow()
	r.Clustering = clusteringOf(n)
	r.Liveness.Timestamp = timestamp
	r.Cells = []row.Cell{{Column: 3, Timestamp: timestamp, Value: []byte(value)}}
	m.AddRow(r)
	return m
}

func deleteKey(key string, timestamp, now int64) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(testTable, row.NewPartitionKey([]byte(key)))
	r := row.NewRow()
	r.Deletion = row.Deletion{Timestamp: timestamp, LocalTime: now}
	m.AddHeader(r)
	return m
}

// entriesOf are the entries of the test table.
func entriesOf(t testing.TB, e *engine) (keys []string) {
	t.Helper()
	entries, err := e.index.host.Entries(testTable, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for valid := entries.First(); valid; valid = entries.Next() {
		keys = append(keys, string(entries.Key()))
	}
	if err := entries.Close(); err != nil {
		t.Fatal(err)
	}
	return keys
}

// missingEntries are the partitions of the test table that are stored and have no entry, though its index says that
// it is complete.
func missingEntries(t testing.TB, e *engine) (missing []string) {
	t.Helper()
	if e.index.state(testTable) != complete {
		return nil
	}
	entries := entriesOf(t, e)
	_, err := e.index.host.Walk(testTable, nil, 1<<30, func(k row.PartitionKey) {
		if _, found := slices.BinarySearch(entries, string(k.Bytes)); !found {
			missing = append(missing, string(k.Bytes))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return missing
}

func keysOf(page storage.PartitionsPage) (keys []string) {
	for _, k := range page.Keys {
		keys = append(keys, string(k))
	}
	return keys
}

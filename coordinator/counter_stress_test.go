package coordinator_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/counters"
	"cqld/internal/wire"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/scenario"
	"cqld/storage"
	"cqld/types"
)

// alone is the view of the only node of a ring.
type alone struct {
	schema   *schema.Schema
	topology *ring.Topology
}

func (a *alone) Self() ring.NodeID                 { return 1 }
func (a *alone) Schema() *schema.Schema            { return a.schema }
func (a *alone) Topology() *ring.Topology          { return a.topology }
func (a *alone) Alive(ring.NodeID) bool            { return true }
func (a *alone) PaxosFloor(schema.StorageID) int64 { return 0 }

// TestCountersUnderLoad adds from many goroutines to a few counters of a node whose disk answers in a separate
// goroutine; some messages are duplicated, and some requests exceed the bounds.
func TestCountersUnderLoad(t *testing.T) {
	text := types.Native(types.Text)
	s := schema.Empty()
	for _, change := range []schema.Change{
		&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: 1}},
		&schema.CreateTable{Keyspace: "ks", Table: "n", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{
				{Name: "k", Kind: schema.PartitionKey, Type: text},
				{Name: "v", Kind: schema.Regular, Type: types.Native(types.Counter)},
			}},
	} {
		var err error
		if s, err = schema.Apply(s, change); err != nil {
			t.Fatal(err)
		}
	}
	view := &alone{s, ring.NewTopology(1, []*ring.Node{{ID: 1, Datacenter: "dc1", Rack: "r1", State: ring.Normal,
		Tokens: []ring.Token{0}}})}
	clock := realClock{time.Now()}
	engine, err := storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}()
	local := replica.NewLocal(engine, view, nil)
	c := scenario.NewParts(scenario.PartsOptions{Coordinator: coordinator.Options{View: view,
		Replicas: replica.NewDirectory(local, nil, view), Clock: clock,
		LocalDatacenter: "dc1", Limits: coordinator.Limits{WritesInFlight: 64}}, Store: engine,
		Counters: counters.Options{Limits: counters.Limits{Group: 7}}})
	table := s.Table("ks", "n")
	add := func(key int) *row.Mutation {
		m, r := &row.Mutation{}, row.NewRow()
		m.Reset(table.StorageID, row.NewPartitionKey(fmt.Append(nil, "k", key)))
		r.Clustering = []byte{}
		r.Cells = append(r.Cells, row.Cell{Column: table.Column("v").ID, Value: wire.AppendInt64(nil, 1)})
		m.AddRow(r)
		return m
	}
	const clients, each, keys = 16, 200, 3
	var counted [keys]atomic.Int64
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			for n := range each {
				key := (i + n) % keys
				answer := make(chan error, 2)
				if i%2 == 0 {
					c.Counters.Update(&coordinator.WriteRequest{Mutations: []*row.Mutation{add(key)},
						Consistency: ring.Quorum,
						Type:        coordinator.WriteCounter, Timeout: time.Minute,
						Blocks: i%4 == 0}, func(err error) { answer <- err })
				} else {
					update := counters.Update{Epoch: 1, Consistency: ring.One, Mutation: add(key),
						ID: coordinator.RequestID{Node: ring.NodeID(i), Incarnation: 1, Sequence: uint64(n + 1)}}
					again := update
					c.Counters.Lead(&update, time.Minute, func(err error) { answer <- err })
					c.Counters.Lead(&again, time.Minute, func(err error) { answer <- err })
					if first, second := <-answer, <-answer; first != second {
						t.Errorf("the same update was reported as %v and %v", first, second)
					} else {
						answer <- first
					}
				}
				switch err := <-answer; {
				case err == nil:
					counted[key].Add(1)
				case !errors.Is(err, coordinator.ErrNotSent):
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	for key := range keys {
		if got, want := sumOn(t, engine, add(key)), counted[key].Load(); got != want || want == 0 {
			t.Errorf("counter %d is %d, and %d were acknowledged", key, got, want)
		}
	}
}

// sumOn returns the value in a node's storage of the counter that m changes.
func sumOn(t *testing.T, engine *storage.Engine, m *row.Mutation) (sum int64) {
	t.Helper()
	page, err := engine.Read(nil, &row.ReadCommand{Table: m.Table, Key: m.Key, Slices: []row.Slice{row.AllRows()},
		Now: time.Now().Unix()})
	if err != nil {
		t.Fatal(err)
	}
	var p row.PageReader
	p.Reset(page)
	for p.NextPartition() {
		var r row.Row
		for p.NextRow(&r) {
			for _, c := range r.Cells {
				v := wire.NewCursor(c.Value)
				sum += v.Int64()
			}
		}
	}
	return sum
}

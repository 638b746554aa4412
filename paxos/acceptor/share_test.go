package acceptor

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/tableinfo"
	"cqld/types"
)

// stillClock is a constant clock for storage, which determines expiry.
type stillClock struct{}

func (stillClock) Now() time.Time           { return time.Unix(1_700_000_000, 0) }
func (stillClock) Monotonic() time.Duration { return 0 }
func (stillClock) After(time.Duration, func()) env.Timer {
	return stoppedTimer{}
}

type stoppedTimer struct{}

func (stoppedTimer) Stop() bool { return true }

// loopback is a transport whose requests arrive at once, in memory that is overwritten afterwards, as in a real
// transport.
type loopback struct {
	services map[messaging.Verb]messaging.Service
}

func (l *loopback) Handle(s messaging.Service) { l.services[s.Verb] = s }
func (l *loopback) Run(_ int, f func()) error {
	f()
	return nil
}
func (l *loopback) Send(ring.NodeID, messaging.Verb, []byte) {}
func (l *loopback) Request(_ ring.NodeID, v messaging.Verb, payload []byte, _ time.Duration, reply messaging.Reply) {
	request := append([]byte(nil), payload...)
	l.services[v].Handler(2, request, func(answer []byte, err error) {
		answer = append([]byte(nil), answer...)
		reply(answer, err)
		clear(answer)
	})
	clear(request)
}

// view is a ring of one node, 1, in the view of node self.
type view struct {
	self     ring.NodeID
	schema   *schema.Schema
	topology *ring.Topology
	lowBound int64 // of every table
}

func (v *view) Self() ring.NodeID                 { return v.self }
func (v *view) Schema() *schema.Schema            { return v.schema }
func (v *view) Topology() *ring.Topology          { return v.topology }
func (v *view) Alive(ring.NodeID) bool            { return true }
func (v *view) PaxosFloor(schema.StorageID) int64 { return v.lowBound }

// newView returns the view of node 1, and a table of one replica.
func newView(t testing.TB) (*view, *schema.Table) {
	t.Helper()
	s := schema.Empty()
	for _, c := range []schema.Change{
		&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: 1}},
		&schema.CreateTable{Keyspace: "ks", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{
				{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Text)},
			}},
	} {
		var err error
		if s, err = schema.Apply(s, c); err != nil {
			t.Fatal(err)
		}
	}
	members := []*ring.Node{{ID: 1, State: ring.Normal, Tokens: []ring.Token{0}}}
	return &view{self: 1, schema: s, topology: ring.NewTopology(5, members)}, s.Table("ks", "t")
}

// newAcceptor returns an acceptor on real storage in memory.
func newAcceptor(t testing.TB) (*Acceptor, *storage.Engine, *schema.Table) {
	t.Helper()
	return newAcceptorOn(t, vfs.NewMem(), storage.SyncNone)
}

func newAcceptorOn(t testing.TB, disk vfs.FS, sync storage.SyncMode) (*Acceptor, *storage.Engine, *schema.Table) {
	t.Helper()
	return newAcceptorWith(t, disk, sync, func(e *storage.Engine) replica.Engine { return e })
}

// newAcceptorOf returns an acceptor that uses storage as returned by of.
func newAcceptorOf(t testing.TB, of func(*storage.Engine) replica.Engine) (*Acceptor, *storage.Engine, *schema.Table) {
	t.Helper()
	return newAcceptorWith(t, vfs.NewMem(), storage.SyncNone, of)
}

func newAcceptorWith(t testing.TB, disk vfs.FS, sync storage.SyncMode,
	of func(*storage.Engine) replica.Engine) (*Acceptor, *storage.Engine, *schema.Table) {
	t.Helper()
	v, table := newView(t)
	engine, err := storage.Open(storage.Options{Dir: "data", FS: disk, Clock: stillClock{}, Inline: true, Sync: sync,
		Table: func(schema.StorageID) tableinfo.Info {
			return tableinfo.Info{Exists: true, GC: tableinfo.GCTimeout}
		}, // as of system.paxos
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(replica.NewLocal(of(engine), v, nil), v), engine, table
}

// sampleMutation returns a change of a row in the partition.
func sampleMutation(key string) *row.Mutation {
	m := &row.Mutation{}
	m.Reset(1024, row.NewPartitionKey([]byte(key)))
	r := row.NewRow()
	r.Clustering = []byte("c")
	r.Liveness.Timestamp = 7
	r.Cells = append(r.Cells, row.Cell{Column: 3, Timestamp: 7, Value: []byte("v")})
	m.AddRow(r)
	m.AddRangeTombstone(row.RangeTombstone{Start: []byte("a"), End: []byte("b"),
		Deletion: row.Deletion{Timestamp: 5, LocalTime: 6}})
	return m
}

func mutationOf(table *schema.Table, key string) *row.Mutation {
	m := sampleMutation(key)
	m.Table = table.StorageID
	return m
}

// truncateNow prepares a truncation and executes it.
func truncateNow(r coordinator.Replica, x coordinator.Truncation, done func(error)) {
	prepare := x
	prepare.Phase = coordinator.TruncationPrepare
	r.Truncate(5, prepare, time.Second, func(err error) {
		if err != nil {
			done(err)
			return
		}
		r.Truncate(5, x, time.Second, done)
	})
}

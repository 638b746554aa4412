package rebalance

import (
	"slices"
	"testing"
	"time"

	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/testcluster"
	"cqld/storage"
	"cqld/types"
)

// view is the metadata of a test node; all nodes are alive.
type view struct {
	self     ring.NodeID
	schema   *schema.Schema
	topology *ring.Topology
}

func (v *view) Self() ring.NodeID                 { return v.self }
func (v *view) Schema() *schema.Schema            { return v.schema }
func (v *view) Topology() *ring.Topology          { return v.topology }
func (v *view) Alive(ring.NodeID) bool            { return true }
func (v *view) PaxosFloor(schema.StorageID) int64 { return 0 }

// testCatalog returns a catalog with table ks.t, which has one replica.
func testCatalog(t testing.TB) (*schema.Schema, *schema.Table) {
	t.Helper()
	s := testcluster.Catalog(t, testcluster.KeyOnly()...)
	return s, s.Table("ks", "t")
}

// services is a transport that registers services and sends nothing.
type services map[messaging.Verb]messaging.Service

func (s services) Handle(x messaging.Service)               { s[x.Verb] = x }
func (s services) Run(_ int, f func()) error                { f(); return nil }
func (s services) Send(ring.NodeID, messaging.Verb, []byte) {}
func (s services) Request(ring.NodeID, messaging.Verb, []byte, time.Duration, messaging.Reply) {
}

// testStates is a replica.PaxosState of tests: the clustering of a table's states is the table's name.
type testStates struct{}

func (testStates) ForgetTable(_ schema.StorageID, done func(error)) { done(nil) }
func (testStates) Undecide(*row.Row) error                          { return nil }
func (testStates) Reload()                                          {}
func (testStates) Select(tables []*schema.Table) func(clustering []byte) bool {
	return func(clustering []byte) bool {
		return slices.ContainsFunc(tables, func(t *schema.Table) bool { return t.Name == string(clustering) })
	}
}

// testState returns a mutation of system.paxos: the state of a partition of a table.
func testState(table *schema.Table, key string) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(schema.PaxosTable, row.NewPartitionKey([]byte(key)))
	r := row.NewRow()
	r.Clustering, r.Liveness.Timestamp = []byte(table.Name), 1
	m.AddRow(r)
	return m
}

// hasState reports whether an engine has the state of a partition of a table.
func hasState(t *testing.T, e *storage.Engine, table *schema.Table, key string) bool {
	t.Helper()
	token := row.NewPartitionKey([]byte(key)).Token
	found, err := e.HasRows(schema.PaxosTable, ring.Range{Start: token - 1, End: token},
		testStates{}.Select([]*schema.Table{table}))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// withKeyspace returns a catalog with another keyspace, which has a table of the same name.
func withKeyspace(t *testing.T, catalog *schema.Schema, name string, id byte, r ring.Replication) *schema.Schema {
	t.Helper()
	for _, change := range []schema.Change{
		&schema.CreateKeyspace{Keyspace: name, Replication: r, DurableWrites: true},
		&schema.CreateTable{Keyspace: name, Table: name, ID: schema.UUID{id}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Text)}}},
	} {
		var err error
		if catalog, err = schema.Apply(catalog, change); err != nil {
			t.Fatal(err)
		}
	}
	return catalog
}

// ignoreChanges is StreamOptions.Changed for tests without cached Paxos state.
func ignoreChanges(schema.StorageID) {}

// here runs f in the caller's goroutine.
func here(f func()) { f() }

package rebalance

import (
	"testing"
	"time"

	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
	"cqld/simulation/testcluster"
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

// ignoreChanges is StreamOptions.Changed for tests without cached Paxos state.
func ignoreChanges(schema.StorageID) {}

// here runs f in the caller's goroutine.
func here(f func()) { f() }

package replica

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/tableinfo"
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

// newStored returns a Local on real storage in memory.
func newStored(t testing.TB) (*Local, *storage.Engine, *schema.Table) {
	t.Helper()
	remote, _, _, table := pair(t, 1, 1)
	engine := openStorage(t, true)
	return NewLocal(engine, remote.view, nil), engine, table
}

// openStorage opens storage in memory. inline makes callers commit.
func openStorage(t testing.TB, inline bool) *storage.Engine {
	t.Helper()
	engine, err := storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: stillClock{}, Inline: inline,
		Sync: storage.SyncNone,
		Table: func(schema.StorageID) tableinfo.Info {
			return tableinfo.Info{Exists: true, GC: tableinfo.GCTimeout}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return engine
}

// BenchmarkApplyRemote writes over a connection, one write after the other.
func BenchmarkApplyRemote(b *testing.B) {
	peer, table := benchPeer(b)
	done := make(chan error, 1)
	ms := []*row.Mutation{mutationOf(table, "k")}
	b.ReportAllocs()
	for b.Loop() {
		peer.Apply(5, ms, time.Minute, func(err error) { done <- err })
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}

// benchPeer returns a replica on real storage, as another node reaches it over a connection.
func benchPeer(b *testing.B) (*Remote, *schema.Table) {
	remote, _, _, table := pair(b, 1, 1)
	l := NewLocal(openStorage(b, false), remote.view, nil)
	peers := map[ring.NodeID]netip.AddrPort{}
	var nodes []*messaging.StreamTransport
	for id := ring.NodeID(1); id <= 2; id++ {
		n := messaging.NewStreamTransport(messaging.Options{Cluster: "c",
			Listen: netip.MustParseAddrPort("127.0.0.1:0"), Limits: messaging.DefaultLimits()})
		n.SetSelf(id)
		if id == 1 {
			Serve(n, l)
		}
		if err := n.Open(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(n.Close)
		peers[id] = n.Addr()
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.SetPeers(peers)
	}
	peer := NewRemote(1, nodes[1], l.view)
	await.Until(b, "the peer applies a mutation", func() bool {
		done := make(chan error, 1)
		peer.Apply(5, []*row.Mutation{mutationOf(table, "k")}, time.Second, func(err error) { done <- err })
		return <-done == nil
	})
	return peer, table
}

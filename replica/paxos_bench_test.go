package replica

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

func benchLocal(b *testing.B) (*Local, *schema.Table) {
	remote, _, _, table := pair(b, 1, 1)
	disk, err := storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: stillClock{}, Sync: storage.SyncNone,
		Table: func(schema.StorageID) storage.TableInfo {
			return storage.TableInfo{Exists: true, GC: storage.GCTimeout}
		}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := disk.Close(); err != nil {
			b.Error(err)
		}
	})
	return NewLocal(disk, remote.view, nil), table
}

// BenchmarkAcceptKnown accepts one proposal after the other for a partition whose state is in memory, alone and over
// a connection.
func BenchmarkAcceptKnown(b *testing.B) {
	l, table := benchLocal(b)
	peer := benchPeer(b, l)
	for name, to := range map[string]coordinator.Replica{"local": l, "remote": peer} {
		b.Run(name, func(b *testing.B) {
			done := make(chan error, 1)
			p := proposalOf(table, ballot(10, 1), ballot(10, 1), "k")
			b.ReportAllocs()
			for b.Loop() {
				benchBallot++
				p.Ballot = ballot(benchBallot, 1)
				p.Origin = p.Ballot
				to.Accept(5, p, time.Minute, func(_ coordinator.Ballot, err error) { done <- err })
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPrepareKnown reads a partition whose state is in memory, on the ballot before it.
func BenchmarkPrepareKnown(b *testing.B) {
	l, table := benchLocal(b)
	peer := benchPeer(b, l)
	cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")), Slices: []row.Slice{row.AllRows()}}
	for name, to := range map[string]coordinator.Replica{"local": l, "remote": peer} {
		b.Run(name, func(b *testing.B) {
			done := make(chan error, 1)
			b.ReportAllocs()
			for b.Loop() {
				benchBallot++
				to.Prepare(5, ballot(benchBallot, 1), ballot(benchBallot-1, 1), cmd, time.Minute, func(_ *coordinator.Promise, err error) { done <- err })
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkApplyRemote writes over a connection, one write after the other.
func BenchmarkApplyRemote(b *testing.B) {
	l, table := benchLocal(b)
	peer := benchPeer(b, l)
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

// benchBallot is the last ballot of the benchmarks: ballots of one partition rise.
var benchBallot int64 = 1 << 20

func benchPeer(b *testing.B, l *Local) *Remote {
	peers := map[ring.NodeID]netip.AddrPort{}
	var nodes []*messaging.GRPC
	for id := ring.NodeID(1); id <= 2; id++ {
		n := messaging.NewGRPC(messaging.Options{Cluster: "c", Listen: netip.MustParseAddrPort("127.0.0.1:0"), Limits: messaging.DefaultLimits()})
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
	table := l.view.Schema().Table("ks", "t")
	for ok := false; !ok; time.Sleep(time.Millisecond) {
		done := make(chan error, 1)
		peer.Apply(5, []*row.Mutation{mutationOf(table, "k")}, time.Second, func(err error) { done <- err })
		ok = <-done == nil
	}
	return peer
}

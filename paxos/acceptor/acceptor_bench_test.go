package acceptor

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/messaging"
	"cqld/paxos/ballot"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/tableinfo"
)

func benchLocal(b *testing.B) (*Acceptor, *schema.Table) {
	v, table := newView(b)
	disk, err := storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: stillClock{},
		Sync: storage.SyncNone,
		Table: func(schema.StorageID) tableinfo.Info {
			return tableinfo.Info{Exists: true, GC: tableinfo.GCTimeout}
		}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := disk.Close(); err != nil {
			b.Error(err)
		}
	})
	return New(replica.NewLocal(disk, v, nil), v), table
}

// BenchmarkAcceptKnown accepts one proposal after the other for a partition with a cached state, locally and over a
// connection.
func BenchmarkAcceptKnown(b *testing.B) {
	l, table := benchLocal(b)
	for name, to := range map[string]*Directory{"local": NewDirectory(l, nil, l.view), "remote": benchPeer(b, l)} {
		b.Run(name, func(b *testing.B) {
			done := make(chan error, 1)
			p := proposalOf(table, ballotAt(10, 1), ballotAt(10, 1), "k")
			b.ReportAllocs()
			for b.Loop() {
				benchBallot++
				p.Ballot = ballotAt(benchBallot, 1)
				p.Origin = p.Ballot
				to.Accept([]ring.NodeID{1}, nil, 5, p, time.Minute,
					func(_ int, _ ballot.Ballot, err error) { done <- err })
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPrepareKnown reads a partition with a cached state, on the previous ballot.
func BenchmarkPrepareKnown(b *testing.B) {
	l, table := benchLocal(b)
	cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")),
		Slices: []row.Slice{row.AllRows()}}
	for name, to := range map[string]*Directory{"local": NewDirectory(l, nil, l.view), "remote": benchPeer(b, l)} {
		b.Run(name, func(b *testing.B) {
			done := make(chan error, 1)
			b.ReportAllocs()
			for b.Loop() {
				benchBallot++
				to.Prepare(1, nil, 5, ballotAt(benchBallot, 1), ballotAt(benchBallot-1, 1), cmd, time.Minute,
					func(_ *ballot.Promise, err error) { done <- err })
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchBallot is the last ballot of the benchmarks: ballots of one partition increase.
var benchBallot int64 = 1 << 20

// benchPeer returns the directory of another node that is connected to the acceptor's.
func benchPeer(b *testing.B, l *Acceptor) *Directory {
	peers := map[ring.NodeID]netip.AddrPort{}
	var nodes []*messaging.StreamTransport
	for id := ring.NodeID(1); id <= 2; id++ {
		n := messaging.NewStreamTransport(messaging.Options{Cluster: "c",
			Listen: netip.MustParseAddrPort("127.0.0.1:0"), Limits: messaging.DefaultLimits()})
		n.SetSelf(id)
		if id == 1 {
			replica.Serve(n, l.replica)
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
	v := *l.view.(*view)
	v.self = 2
	peer := NewDirectory(nil, nodes[1], &v)
	cmd := &row.ReadCommand{Table: v.schema.Table("ks", "t").StorageID, Key: row.NewPartitionKey([]byte("k")),
		Slices: []row.Slice{row.AllRows()}}
	for ok := false; !ok; time.Sleep(time.Millisecond) {
		done := make(chan error, 1)
		peer.Prepare(1, nil, 5, ballotAt(1, 1), ballot.Ballot{}, cmd, time.Second,
			func(_ *ballot.Promise, err error) { done <- err })
		ok = <-done == nil
	}
	return peer
}

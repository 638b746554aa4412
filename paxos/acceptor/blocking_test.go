package acceptor

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/internal/await"
	"cqld/messaging"
	"cqld/paxos/ballot"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/tableinfo"
)

// stuckEngine is storage whose reads, except for the first few, block until the test ends.
type stuckEngine struct {
	*storage.Engine
	free atomic.Int64 // number of reads that do not block
	end  chan struct{}
}

func (e *stuckEngine) Read(dst []byte, cmd *row.ReadCommand) ([]byte, error) {
	if e.free.Add(-1) < 0 {
		<-e.end
	}
	return e.Engine.Read(dst, cmd)
}

// newStuck returns an acceptor on storage with a committer, whose reads block after the first free ones.
func newStuck(t *testing.T, free int64) (*Acceptor, *stuckEngine, *schema.Table) {
	t.Helper()
	v, table := newView(t)
	disk, err := storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: stillClock{},
		Sync: storage.SyncNone,
		Table: func(schema.StorageID) tableinfo.Info {
			return tableinfo.Info{Exists: true, GC: tableinfo.GCTimeout}
		}})
	if err != nil {
		t.Fatal(err)
	}
	e := &stuckEngine{Engine: disk, end: make(chan struct{})}
	e.free.Store(free)
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(replica.NewLocal(e, v, nil), v), e, table
}

// connect is two transports that know each other, the second of which serves l.
func connect(t *testing.T, l *Acceptor) (from *messaging.StreamTransport, beats *atomic.Int64) {
	t.Helper()
	beats = new(atomic.Int64)
	peers := map[ring.NodeID]netip.AddrPort{}
	var nodes []*messaging.StreamTransport
	for i := range 2 {
		n := messaging.NewStreamTransport(messaging.Options{Cluster: "c",
			Listen: netip.MustParseAddrPort("127.0.0.1:0"), Limits: messaging.DefaultLimits()})
		id := ring.NodeID(2 - i) // node 1 serves
		n.SetSelf(id)
		if id == 1 {
			replica.Serve(n, l.replica)
			Serve(n, l)
			n.Handle(messaging.Service{Verb: messaging.VerbHeartbeat,
				Handler: func(ring.NodeID, []byte, messaging.Respond) { beats.Add(1) }})
		}
		if err := n.Open(); err != nil {
			t.Fatal(err)
		}
		peers[id] = n.Addr()
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.SetPeers(peers)
	}
	t.Cleanup(nodes[0].Close)
	t.Cleanup(nodes[1].Close)
	eventually(t, "the nodes are connected", func() bool {
		nodes[0].Send(1, messaging.VerbHeartbeat, nil)
		return beats.Load() > 0
	})
	return nodes[0], beats
}

// directoryOf returns the directory of node 2, which reaches the acceptor of node 1 by a transport.
func directoryOf(l *Acceptor, transport messaging.Transport) *Directory {
	other := *l.view.(*view)
	other.self = 2
	return NewDirectory(nil, transport, &other)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	await.Until(t, what, ok)
}

// TestPaxosReadsDoNotHoldUpTheStream checks, for each verb of Paxos and each other verb that reads, that heartbeats and
// writes of the same peer are processed while the read waits for the disk.
func TestPaxosReadsDoNotHoldUpTheStream(t *testing.T) {
	for name, ask := range map[string]func(d *Directory, r *replica.Remote, table *schema.Table){
		"prepare": func(d *Directory, r *replica.Remote, table *schema.Table) {
			cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")),
				Slices: []row.Slice{row.AllRows()}}
			d.Prepare(1, nil, 5, ballotAt(10, 2), ballot.Ballot{}, cmd, time.Minute,
				func(*ballot.Promise, error) {})
		},
		"accept": func(d *Directory, r *replica.Remote, table *schema.Table) {
			d.Accept([]ring.NodeID{1}, nil, 5, proposalOf(table, ballotAt(10, 2), ballotAt(10, 2), "k"), time.Minute,
				func(int, ballot.Ballot, error) {})
		},
		"commit": func(d *Directory, r *replica.Remote, table *schema.Table) {
			d.Commit(1, nil, 5, proposalOf(table, ballotAt(10, 2), ballotAt(10, 2), "k"), time.Minute, func(error) {})
		},
		"truncate": func(d *Directory, r *replica.Remote, table *schema.Table) {
			truncateNow(r, coordinator.Truncation{Table: table.StorageID, ID: 1}, func(error) {})
		},
		"read": func(d *Directory, r *replica.Remote, table *schema.Table) {
			cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")),
				Slices: []row.Slice{row.AllRows()}}
			r.Read(5, cmd, time.Minute, func([]byte, error) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, engine, table := newStuck(t, 0)
			from, beats := connect(t, l)
			release := sync.OnceFunc(func() { close(engine.end) })
			t.Cleanup(release)
			peer := replica.NewRemote(1, from, l.view)
			ask(directoryOf(l, from), peer, table)
			eventually(t, "a read waits", func() bool { return engine.free.Load() < 0 })
			before := beats.Load()
			from.Send(1, messaging.VerbHeartbeat, nil)
			written := make(chan error, 1)
			peer.Apply(5, []*row.Mutation{mutationOf(table, "other")}, time.Minute, func(err error) { written <- err })
			select {
			case err := <-written:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("a write waits behind a read")
			}
			if beats.Load() == before {
				t.Error("a heartbeat waits behind a read")
			}
			release()
		})
	}
}

// TestWaitingStepsDoNotHoldUpTheCommitter checks that the next request of a partition, which starts when the previous
// write is acknowledged, does not make other writes wait for the disk's reads.
func TestWaitingStepsDoNotHoldUpTheCommitter(t *testing.T) {
	l, engine, table := newStuck(t, 2) // the first prepare reads its state and the row
	from, _ := connect(t, l)
	release := sync.OnceFunc(func() { close(engine.end) })
	t.Cleanup(release)
	peer := directoryOf(l, from)
	for i := range 3 {
		cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")),
			Slices: []row.Slice{row.AllRows()}}
		peer.Prepare(1, nil, 5, ballotAt(int64(10+i), 2), ballot.Ballot{}, cmd, time.Minute,
			func(*ballot.Promise, error) {})
	}
	eventually(t, "a read waits", func() bool { return engine.free.Load() < 0 })
	written := make(chan error, 1)
	l.replica.Apply(5, []*row.Mutation{mutationOf(table, "other")}, time.Minute, func(err error) { written <- err })
	select {
	case err := <-written:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("a write waits behind a read in the committer")
	}
	release()
}

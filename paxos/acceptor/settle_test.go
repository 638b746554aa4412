package acceptor

import (
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/paxos/ballot"
	"cqld/replica"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/tableinfo"
)

// settlingEngine is storage in which a stream calls Settle during each write.
type settlingEngine struct {
	*storage.Engine
	settle  func()
	settled sync.WaitGroup
}

func (e *settlingEngine) Apply(ms []*row.Mutation, durable bool, done func(error)) error {
	e.settled.Go(e.settle)
	time.Sleep(20 * time.Millisecond) // Settle waits by then
	return e.Engine.Apply(ms, durable, done)
}

// TestFullDiskWithWaitersAndStreaming checks that writes which the engine refuses, queued requests for the same
// partition, and a stream that waits for earlier writes do not block each other.
func TestFullDiskWithWaitersAndStreaming(t *testing.T) {
	v, table := newView(t)
	disk, err := storage.Open(storage.Options{
		Dir: "data", FS: vfs.NewMem(), Clock: stillClock{}, Sync: storage.SyncNone,
		Table: func(schema.StorageID) tableinfo.Info {
			return tableinfo.Info{Exists: true, GC: tableinfo.GCTimeout}
		},
		FreeSpace: func() (free, total int64) { return 0, 1 << 30 },
	})
	if err != nil {
		t.Fatal(err)
	}
	engine := &settlingEngine{Engine: disk}
	local := replica.NewLocal(engine, v, nil)
	l := New(local, v)
	engine.settle = local.Settle

	const requests = 40
	answers := make(chan error, 3*requests)
	for i := range requests {
		b := ballotAt(int64(10+i), 1)
		cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")),
			Slices: []row.Slice{row.AllRows()}}
		go l.Prepare(5, b, ballot.Ballot{}, cmd, func(_ *ballot.Promise, err error) { answers <- err })
		go l.Accept(5, proposalOf(table, b, b, "k"), func(_ ballot.Ballot, err error) { answers <- err })
		go local.Apply(5, []*row.Mutation{mutationOf(table, "k")}, time.Second, func(err error) { answers <- err })
	}
	timeout := time.After(time.Minute)
	for i := range 3 * requests {
		select {
		case err := <-answers:
			if err == nil {
				t.Error("a full disk took a write")
			}
		case <-timeout:
			t.Fatalf("%d of %d requests were answered: the others never end", i, 3*requests)
		}
	}
	engine.settled.Wait()
	if err := disk.Close(); err != nil {
		t.Fatal(err)
	}
}

package index

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/tableinfo"
)

// TestBuildWaitsForWritesWithoutEntries begins to build an index while a write is under way that was prepared before
// the index was known. The build must find its row.
func TestBuildWaitsForWritesWithoutEntries(t *testing.T) {
	var known atomic.Bool
	x := NewValues(func(id schema.StorageID) []Definition {
		if id != testTable || !known.Load() {
			return nil
		}
		return testDefinitions()[:1]
	})
	info := tableinfo.Info{Exists: true, GCGraceSeconds: grace, GC: tableinfo.GCTimeout}
	o := storage.Options{Clock: newTestClock(), Dir: "db", FS: vfs.NewMem(), MemTableBytes: 1 << 20,
		Table: func(schema.StorageID) tableinfo.Info { return info }}
	MaintainValues(&o, x)
	h := &holder{reached: make(chan struct{}), release: make(chan struct{})}
	o.Maintainers = append(o.Maintainers, h)
	e, err := storage.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()

	m, r := &row.Mutation{}, row.NewRow()
	m.Reset(testTable, row.NewPartitionKey([]byte("key")))
	r.Liveness.Timestamp, r.Clustering = 1, []byte("c")
	r.Cells = append(r.Cells, row.Cell{Column: 3, Timestamp: 1, Value: []byte("value")})
	m.AddRow(r)
	h.hold.Store(true)
	written := make(chan error, 1)
	go func() { written <- apply(&engine{Engine: e}, m) }()
	<-h.reached
	known.Store(true)
	ended := make(chan error, 1)
	go func() { ended <- buildAll(x, testTable, ofValue) }()
	select {
	case err := <-ended:
		t.Error("the build does not wait for the write")
		ended <- err
	// A build of an empty table takes much less.
	case <-time.After(50 * time.Millisecond):
	}
	close(h.release)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if valueEntries(t, x) == 0 {
		t.Error("the index does not have the row")
	}
}

// holder is a maintainer of nothing. It holds up a write after Values was asked about it.
type holder struct {
	storage.Maintainer
	hold             atomic.Bool
	reached, release chan struct{}
}

func (h *holder) Space() storage.KeySpace { return storage.KeySpace{Entries: 200, Marks: 'z'} }

func (h *holder) Open(*storage.Host) error { return nil }

func (h *holder) Maintains(schema.StorageID) bool {
	if h.hold.CompareAndSwap(true, false) {
		close(h.reached)
		<-h.release
	}
	return false
}

func buildAll(x *Values, table, id schema.StorageID) error {
	for {
		if more, err := x.Build(table, id); err != nil || !more {
			return err
		}
	}
}

// valueEntries returns how many entries the index ofValue has.
func valueEntries(t *testing.T, x *Values) (n int) {
	it, err := x.host.Entries(testTable, appendIndex(nil, ofValue), appendIndex(nil, ofValue+1))
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if err := it.Close(); err != nil {
		t.Error(err)
	}
	return n
}

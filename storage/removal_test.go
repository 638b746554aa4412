package storage

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/faultfs"
)

// TestRemovalsDoNotDelayCommits holds the fsync of a removal: other writes, which do not wait for the disk, are
// committed meanwhile.
func TestRemovalsDoNotDelayCommits(t *testing.T) {
	for name, remove := range map[string]func(e *Engine) error{
		"truncate": func(e *Engine) error { return e.Truncate(testTable + 1) },
		"drop":     func(e *Engine) error { return e.DropTable(testTable + 1) },
		"range":    func(e *Engine) error { return e.DropRange(testTable+1, ring.FullRange()) },
		"rows": func(e *Engine) error {
			return e.DropRows(testTable+1, ring.FullRange(), func([]byte) bool { return true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := faultfs.Wrap(vfs.NewMem())
			e := openTest(t, Options{FS: disk, NoSweep: true})
			mustApply(t, e, putRow("a", 1, 1, "x"), putInto(testTable+1, "a"))
			release, held := make(chan struct{}), make(chan struct{}, 1)
			var armed atomic.Bool
			armed.Store(true)
			disk.Fail(func(op faultfs.Op, name string) error {
				if op == faultfs.OpSync && strings.HasSuffix(name, ".log") && armed.CompareAndSwap(true, false) {
					held <- struct{}{}
					<-release
				}
				return nil
			})
			removed := make(chan error, 1)
			go func() { removed <- remove(e) }()
			<-held
			committed := make(chan error, 1)
			mustTake(t, e, []*row.Mutation{putRow("b", 1, 1, "y")}, false, func(err error) { committed <- err })
			select {
			case err := <-committed:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("a write waits for the removal's fsync")
			}
			close(release)
			if err := <-removed; err != nil {
				t.Error(err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// putInto is putRow for another table.
func putInto(table schema.StorageID, key string) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(table, row.NewPartitionKey([]byte(key)))
	r := row.NewRow()
	r.Clustering, r.Liveness.Timestamp = clusteringOf(1), 1
	m.AddRow(r)
	return m
}

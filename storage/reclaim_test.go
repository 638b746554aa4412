package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/internal/tier"
	"cqld/ring"
	"cqld/row"
	"cqld/storage/failure"
	"cqld/storage/faultfs"
)

// fill writes rows of random bytes, which do not compress, until it has written so many bytes or the disk refuses.
func fill(t *testing.T, e *Engine, seed uint64, size int) (written int) {
	t.Helper()
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	random := rand.NewChaCha8(key)
	value := make([]byte, 4096)
	for i := 0; written < size; i++ {
		_, _ = random.Read(value) // never fails
		m := new(row.Mutation)
		m.Reset(testTable, row.NewPartitionKey(fmt.Appendf(nil, "k%d-%d", seed, i)))
		r := row.NewRow()
		r.Clustering = clusteringOf(i)
		r.Liveness.Timestamp = 1
		r.Cells = []row.Cell{{Column: 3, Timestamp: 1, Value: bytes.Clone(value)}}
		m.AddRow(r)
		switch err := apply(e, m); {
		case errors.Is(err, failure.ErrDiskFull):
			return written
		case err != nil:
			t.Fatal(err)
		}
		written += len(value)
	}
	return written
}

// TestSpaceIsFreedAtOnce checks that a table that is truncated or dropped leaves the disk within seconds, though
// nothing is written after it that would flush the memtable.
func TestSpaceIsFreedAtOnce(t *testing.T) {
	tier.Long(t)
	for name, remove := range map[string]func(*Engine) error{
		"truncate": func(e *Engine) error { return e.Truncate(testTable) },
		"drop":     func(e *Engine) error { return e.DropTable(testTable) },
		"cleanup":  func(e *Engine) error { return e.DropRange(testTable, ring.FullRange()) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := vfs.NewMem()
			clock := newTestClock()
			e := openTest(t, Options{FS: disk, Clock: clock, MemTableBytes: 4 << 20})
			defer e.Close()
			fill(t, e, 1, 32<<20)
			if before := tableFiles(t, disk); before < 16<<20 {
				t.Fatalf("%d bytes are in files", before)
			}
			if err := remove(e); err != nil {
				t.Fatal(err)
			}
			if !await.Reached(time.Minute, func() bool {
				clock.advance(reclaimAfter)
				return tableFiles(t, disk) <= 1<<20
			}) {
				t.Fatalf("%d bytes are still in files", tableFiles(t, disk))
			}
		})
	}
}

// tableFiles returns how many bytes the files of tables hold.
func tableFiles(t *testing.T, disk vfs.FS) (size int64) {
	t.Helper()
	names, err := disk.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		if info, err := disk.Stat(disk.PathJoin("db", name)); err == nil { // or it has been removed in the meantime
			size += info.Size()
		}
	}
	return size
}

// TestTruncationFreesAFullDisk checks that a node whose disk refuses writes takes them again after a truncation, and a
// drop, with the notes that these leave.
func TestTruncationFreesAFullDisk(t *testing.T) {
	tier.Long(t)
	for name, remove := range map[string]func(*Engine) error{
		"truncate": func(e *Engine) error { return e.Truncate(testTable) },
		"drop":     func(e *Engine) error { return e.DropTable(testTable) },
	} {
		t.Run(name, func(t *testing.T) {
			disk := faultfs.Wrap(vfs.NewMem())
			disk.SetSpace(64 << 20)
			clock := newTestClock()
			e := openTest(t, Options{FS: disk, Clock: clock, FreeSpace: disk.Space, MemTableBytes: 1 << 20,
				BallastBytes: 4 << 20})
			defer e.Close()
			for seed := uint64(0); fill(t, e, seed, 256<<10) > 0; seed++ {
				e.disk.Check()
			}
			if err := apply(e, putRow("other", 1, 1, "x")); !errors.Is(err, failure.ErrDiskFull) {
				t.Fatalf("the disk is not full: %v", err)
			}
			if err := e.SetLocal([]byte("hints/1"), make([]byte, 1000), true); !errors.Is(err, failure.ErrDiskFull) {
				t.Errorf("a hint on a full disk: %v", err)
			}
			// What goes with a truncation: hints are void, state of Paxos is deleted.
			if err := e.SetLocal([]byte("hinttrunc/1"), make([]byte, 8), true); err != nil {
				t.Errorf("a note on a full disk: %v", err)
			}
			if err := e.DeleteLocal([]byte("hints/0"), false); err != nil {
				t.Errorf("a deletion on a full disk: %v", err)
			}
			done := make(chan error, 1)
			forget := new(row.Mutation)
			forget.Reset(testTable+1, row.NewPartitionKey([]byte("p")))
			header := row.NewRow()
			header.Deletion = row.Deletion{Timestamp: 1, LocalTime: 1}
			forget.AddHeader(header)
			if err := e.Forget([]*row.Mutation{forget}, true, func(err error) { done <- err }); err != nil {
				t.Errorf("a deletion that goes with a truncation on a full disk: %v", err)
			} else if err := <-done; err != nil {
				t.Error(err)
			}
			if err := remove(e); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the disk has space", func() bool {
				clock.advance(reclaimAfter)
				e.disk.Check()
				m := putRow("other", 1, 1, "x")
				m.Table++
				return apply(e, m) == nil
			})
		})
	}
}

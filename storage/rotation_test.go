package storage

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/row"
	"cqld/storage/database"
	"cqld/storage/logguard"
)

// unsyncedFS records how many bytes of a log the disk had not been asked to write when a sync of the log began.
type unsyncedFS struct {
	vfs.FS
	mu      sync.Mutex
	most    int64
	written int64 // of all logs
}

func (u *unsyncedFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.Create(name, c)
	return u.wrap(f, c, err)
}

func (u *unsyncedFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.ReuseForWrite(oldname, newname, c)
	return u.wrap(f, c, err)
}

func (u *unsyncedFS) wrap(f vfs.File, c vfs.DiskWriteCategory, err error) (vfs.File, error) {
	if err != nil || c != logguard.Category {
		return f, err
	}
	return &unsyncedLog{File: f, fs: u}, nil
}

// unsyncedLog is a log. Its methods are called one at a time.
type unsyncedLog struct {
	vfs.File
	fs          *unsyncedFS
	end, passed int64 // bytes written, and bytes that the disk was asked to write
}

func (f *unsyncedLog) Write(p []byte) (int, error) {
	f.end += int64(len(p))
	f.fs.mu.Lock()
	f.fs.written += int64(len(p))
	f.fs.mu.Unlock()
	return f.File.Write(p)
}

func (f *unsyncedLog) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	f.passed = length
	if full {
		f.passed = f.end
	}
	return full, err
}

func (f *unsyncedLog) SyncData() error {
	f.fs.mu.Lock()
	f.fs.most = max(f.fs.most, f.end-f.passed)
	f.fs.mu.Unlock()
	f.passed = f.end
	return f.File.SyncData()
}

// All writes wait for the sync of a full memtable's log. It must not have the whole log to write.
func TestFullLogIsNearlyOnDisk(t *testing.T) {
	for name, sync := range map[string]SyncMode{"periodic": SyncPeriodic, "batch": SyncBatch} {
		t.Run(name, func(t *testing.T) {
			fs := &unsyncedFS{FS: vfs.Default}
			e := openTest(t, Options{FS: fs, Dir: t.TempDir(), BallastBytes: -1, Sync: sync, SyncPeriod: time.Hour,
				MemTableBytes: 8 << 20})
			value := strings.Repeat("v", 16<<10)
			for i := range 1500 { // memtables of 256 KiB, 512 KiB, ... 8 MiB, 8 MiB
				done := make(chan error, 1)
				if err := e.Apply([]*row.Mutation{putRow("k", i, 1, value)}, false,
					func(err error) { done <- err }); err != nil {
					t.Fatal(err)
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			// Pebble keeps the last MiB, which may be written again.
			if bound := int64(database.LogBytesPerSync + 1<<20 + 64<<10); fs.most > bound || fs.written < 20<<20 {
				t.Fatalf("a sync of the log had %d bytes to write, of %d; at most %d are allowed", fs.most, fs.written,
					bound)
			}
		})
	}
}

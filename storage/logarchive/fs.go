package logarchive

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// keepContents keeps Pebble from reusing log files.
type keepContents struct{ pebble.ArchiveCleaner }

// cleaner removes files as Pebble does by default: the methods of DeleteCleaner are less deeply embedded.
type cleaner struct {
	pebble.DeleteCleaner
	keepContents
}

// cleanerName is the name of the cleaner in Pebble's file of options (continues).
const cleanerName = "cqld.logarchive"

// String implements pebble.Cleaner.
func (cleaner) String() string { return cleanerName }

// Cleaner returns the Cleaner of a database whose logs are kept: it must not reuse their files.
func Cleaner() pebble.Cleaner { return cleaner{} }

// FS wraps fs for Pebble: the keeper may keep logs that Pebble removes, and learns how much of the current log is on
// disk.
func (k *Keeper) FS(fs vfs.FS) vfs.FS { return &keepingFS{fs, k} }

type keepingFS struct {
	vfs.FS
	keeper *Keeper
}

// Unwrap implements vfs.FS.
func (fs *keepingFS) Unwrap() vfs.FS { return fs.FS }

// Create implements vfs.FS.
func (fs *keepingFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := fs.FS.Create(name, category)
	number, log := LogNumber(fs.PathBase(name))
	if err != nil || !log || fs.PathDir(name) != fs.keeper.dir { // checkpoints contain logs, too
		return f, err
	}
	// Pebble closes a log before it creates the next one.
	live := &liveLog{File: f, number: number}
	fs.keeper.mu.Lock()
	defer fs.keeper.mu.Unlock()
	fs.keeper.mu.live = live
	return live, nil
}

// Remove implements vfs.FS. A log that is kept counts as removed.
func (fs *keepingFS) Remove(name string) error {
	number, log := LogNumber(fs.PathBase(name))
	if log && fs.PathDir(name) == fs.keeper.dir && fs.keeper.keep(number) {
		return nil
	}
	return fs.FS.Remove(name)
}

// liveLog is the log that Pebble writes. Pebble writes and syncs it one call at a time.
type liveLog struct {
	vfs.File
	number  uint64
	written int64
	synced  atomic.Int64 // bytes that are on disk
}

// Write implements vfs.File.
func (l *liveLog) Write(p []byte) (int, error) {
	n, err := l.File.Write(p)
	l.written += int64(n)
	return n, err
}

// Sync implements vfs.File.
func (l *liveLog) Sync() error { return l.note(l.File.Sync()) }

// SyncData implements vfs.File.
func (l *liveLog) SyncData() error { return l.note(l.File.SyncData()) }

// note records how much of the log is on disk after a sync.
func (l *liveLog) note(err error) error {
	if err == nil {
		// No write runs during a sync.
		l.synced.Store(l.written)
	}
	return err
}

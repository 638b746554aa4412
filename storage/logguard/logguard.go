// Package logguard hides failures of the log from Pebble.
//
// Pebble does not survive a failure of the log while it switches to the next one: it panics without the lock that it
// then unlocks, which ends the process. Package logguard therefore reports the failure to the log's owner instead. The
// owner has failed before Pebble continues, and every caller that waits for a commit checks the owner's state.
//
//	Pebble ──▶ FS ──▶ the disk
//	            └── the first error ──▶ fail
//
// From then on nothing is written to logs, and no log is created on disk: the failed log stays the last one, whose
// end a reader expects to be torn. Files that Pebble flushes meanwhile are complete without logs.
//
// While Pebble opens its directory, the package also verifies each log before Pebble reads it (package logcheck), so
// that Open fails if a log was changed, and remembers the name of the file for errors of Pebble that lack it.
//
// It only handles logs: Pebble reports other failures itself (Logger, EventListener).
package logguard

import (
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Category is Pebble's name for writes to its log.
const Category = "pebble-wal"

// FS is the file system of one Pebble database.
type FS struct {
	vfs.FS
	failed func() bool
	fail   func(error)
	opened atomic.Bool
	made   atomic.Bool // a log, whose directory was not synced yet
	// reading is the name of the file that was opened last for reading, until Pebble has been opened.
	reading atomic.Pointer[string]
}

// New returns an FS. failed reports whether the owner has stopped acknowledging writes; fail stops it. Both may be
// called at any time, by any goroutine, with Pebble's locks held.
func New(fs vfs.FS, failed func() bool, fail func(error)) *FS {
	return &FS{FS: fs, failed: failed, fail: fail}
}

// Opened is called when Pebble has been opened: before that, errors are returned, so that Open fails.
func (fs *FS) Opened() { fs.opened.Store(true) }

// Unwrap implements vfs.FS.
func (fs *FS) Unwrap() vfs.FS { return fs.FS }

// Create implements vfs.FS.
func (fs *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category != Category {
		return fs.FS.Create(name, category)
	}
	return fs.log(func() (vfs.File, error) { return fs.FS.Create(name, category) })
}

// ReuseForWrite implements vfs.FS.
func (fs *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category != Category {
		return fs.FS.ReuseForWrite(oldname, newname, category)
	}
	return fs.log(func() (vfs.File, error) { return fs.FS.ReuseForWrite(oldname, newname, category) })
}

// log returns the file that begin creates, or a file that discards writes if the owner has failed.
func (fs *FS) log(begin func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	if err := fs.guard("begin", func() (err error) { f, err = begin(); return err }); err != nil {
		return nil, err
	}
	if f == nil {
		return vfs.NewMem().Create("lost", Category)
	}
	fs.made.Store(true)
	return file{f, fs}, nil
}

// OpenDir implements vfs.FS.
func (fs *FS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &dir{File: f, fs: fs}, nil
}

// file is a log.
type file struct {
	vfs.File
	fs *FS
}

// Write implements vfs.File.
func (f file) Write(p []byte) (n int, err error) {
	err = f.fs.guard("write", func() (err error) { n, err = f.File.Write(p); return err })
	if err == nil {
		n = len(p)
	}
	return n, err
}

// Sync implements vfs.File.
func (f file) Sync() error { return f.fs.guard("sync", f.File.Sync) }

// SyncData implements vfs.File.
func (f file) SyncData() error { return f.fs.guard("sync", f.File.SyncData) }

// SyncTo implements vfs.File.
func (f file) SyncTo(length int64) (full bool, err error) {
	err = f.fs.guard("sync", func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// Close implements vfs.File. The file is closed in any case.
func (f file) Close() error {
	err := f.File.Close()
	return f.fs.guard("close", func() error { return err })
}

// dir is an open handle of the directory. Several parts of Pebble have one. The first sync after a log was created
// identifies the handle that syncs logs; Pebble's Open makes that sync before all others.
type dir struct {
	vfs.File
	fs   *FS
	logs atomic.Bool
}

// Sync implements vfs.File.
func (d *dir) Sync() error {
	if !d.fs.opened.Load() && d.fs.made.Swap(false) {
		d.logs.Store(true)
	}
	if !d.logs.Load() {
		return d.File.Sync()
	}
	return d.fs.guard("begin", d.File.Sync)
}

// guard executes an operation on the log unless the owner has failed. An error fails the owner and is hidden from
// Pebble, except while Pebble is being opened.
func (fs *FS) guard(what string, do func() error) error {
	if fs.failed() {
		return nil
	}
	err := do()
	if err == nil || !fs.opened.Load() {
		return err
	}
	fs.fail(fmt.Errorf("%s of the log: %w", what, err))
	return nil
}

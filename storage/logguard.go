package storage

import (
	"fmt"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble does not survive a log that fails while it changes from one to the next: it panics without the lock that
// it then unlocks, which ends the process. So it never hears of a log that fails. The engine does, and has failed
// before Pebble goes on; whoever waits for a commit asks the engine (Engine.failedErr), and is told.
//
//	Pebble ──▶ guardFS ──▶ OnDiskFull ──▶ logAheadFS ──▶ the disk
//	              └── the first error ──▶ Engine.fail
//
// From then on nothing is written to logs, and no log is begun on the disk: the one that failed stays the last, of
// which a reader expects that its end is torn. What Pebble flushes meanwhile is whole without logs.

// guardFS is the file system as Pebble sees it.
type guardFS struct {
	vfs.FS
	e    *Engine
	made atomic.Bool // a log, whose directory was not synced yet
}

// Unwrap implements vfs.FS.
func (fs *guardFS) Unwrap() vfs.FS { return fs.FS }

// Create implements vfs.FS.
func (fs *guardFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category != logCategory {
		return fs.FS.Create(name, category)
	}
	return fs.log(func() (vfs.File, error) { return fs.FS.Create(name, category) })
}

// ReuseForWrite implements vfs.FS.
func (fs *guardFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category != logCategory {
		return fs.FS.ReuseForWrite(oldname, newname, category)
	}
	return fs.log(func() (vfs.File, error) { return fs.FS.ReuseForWrite(oldname, newname, category) })
}

// log is the file that begin makes, or one that goes nowhere.
func (fs *guardFS) log(begin func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	if err := fs.e.guard("begin", func() (err error) { f, err = begin(); return err }); err != nil {
		return nil, err
	}
	if f == nil {
		return vfs.NewMem().Create("lost", logCategory)
	}
	fs.made.Store(true)
	return guardFile{f, fs.e}, nil
}

// OpenDir implements vfs.FS.
func (fs *guardFS) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardDir{File: f, fs: fs}, nil
}

// guardFile is a log.
type guardFile struct {
	vfs.File
	e *Engine
}

// Write implements vfs.File.
func (f guardFile) Write(p []byte) (n int, err error) {
	n = len(p)
	err = f.e.guard("write", func() (err error) { n, err = f.File.Write(p); return err })
	if err == nil {
		n = len(p)
	}
	return n, err
}

// Sync implements vfs.File.
func (f guardFile) Sync() error { return f.e.guard("sync", f.File.Sync) }

// SyncData implements vfs.File.
func (f guardFile) SyncData() error { return f.e.guard("sync", f.File.SyncData) }

// SyncTo implements vfs.File.
func (f guardFile) SyncTo(length int64) (full bool, err error) {
	err = f.e.guard("sync", func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// Close implements vfs.File. The file is closed in any case.
func (f guardFile) Close() error {
	err := f.File.Close()
	return f.e.guard("close", func() error { return err })
}

// guardDir is the directory as one part of Pebble has it open. The part that has logs is the one that syncs it
// when the first log was made, which Open does before anything else can happen.
type guardDir struct {
	vfs.File
	fs   *guardFS
	logs atomic.Bool
}

// Sync implements vfs.File.
func (d *guardDir) Sync() error {
	if !d.fs.e.opened.Load() && d.fs.made.Swap(false) {
		d.logs.Store(true)
	}
	if !d.logs.Load() {
		return d.File.Sync()
	}
	return d.fs.e.guard("begin", d.File.Sync)
}

// guard does something to the log, unless the engine has failed. An error fails it, and is not returned, unless the
// engine is being opened: that fails as it should.
func (e *Engine) guard(what string, do func() error) error {
	if e.failed.Load() != nil {
		return nil
	}
	err := do()
	if err == nil || !e.opened.Load() {
		return err
	}
	e.fail(fmt.Errorf("%s of the log: %w", what, err))
	return nil
}

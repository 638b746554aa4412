// Package faultfs is a file system whose operations fail when a test requests it.
//
// Pebble's own errorfs hands out files taken for reuse as they are, so that recycled logs never
// fail; here every file that can be written is wrapped. It injects errors and a bound on space; it
// does not lose what was not synced (vfs.NewCrashableMem does). Unsynced omits syncs, so that a
// crash loses what was acknowledged.
//
//	Pebble ─▶ FS ─ check: the function of Fail ─▶ error
//	           └─ grow: the space of SetSpace ──▶ ENOSPC, or the file system below
package faultfs

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Op is a kind of operation. Operations that are not listed, such as Link or MkdirAll, never fail.
type Op uint8

// The operations that can fail.
const (
	OpCreate Op = iota + 1 // also of a file taken for reuse
	OpWrite
	OpSync // of files and directories
	OpRead
	OpRename
	OpRemove
)

// FS passes operations on to another file system unless the test's function fails them. It is safe for concurrent
// use, because Pebble calls it from many goroutines.
type FS struct {
	vfs.FS

	mu struct {
		sync.Mutex
		// fail decides about each operation; nil means that no operation fails.
		fail func(op Op, name string) error
		// used and sizes count the bytes of all files written through this FS, in total and by full name. Files that
		// existed before do not count.
		used  int64
		space int64 // bytes; 0: no bound
		sizes map[string]int64
	}
}

// Wrap returns an FS in which no operation fails yet. inner is usually in memory.
func Wrap(inner vfs.FS) *FS {
	f := &FS{FS: inner}
	f.mu.sizes = map[string]int64{}
	return f
}

// Fail sets the function that is called before every operation, with the base name of the file: if it returns an
// error, the operation fails with that error. nil means that no operation fails. decide may be called by several
// goroutines at once, also while Fail changes it.
func (f *FS) Fail(decide func(op Op, name string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.fail = decide
}

// SetSpace bounds the total size, in bytes, of all files written through f. A write beyond it fails with ENOSPC. Zero
// removes the bound. Existing files may exceed it.
func (f *FS) SetSpace(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.space = bytes
}

// Space returns the free and the total bytes in the form of Options.FreeSpace. Without a bound, the total is 0, which
// means that both are unknown.
func (f *FS) Space() (free, total int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.space - f.mu.used, f.mu.space
}

// check returns the error with which an operation must fail, or nil. It is not atomic with the operation: another one
// may run in between.
func (f *FS) check(op Op, name string) error {
	f.mu.Lock()
	// decide is called without the lock, so that it may call Fail or SetSpace.
	decide := f.mu.fail
	f.mu.Unlock()
	if decide == nil {
		return nil
	}
	return decide(op, filepath.Base(name))
}

// grow reserves the space by which a file grows to a size of to bytes. A larger file keeps its size.
func (f *FS) grow(name string, to int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	more := to - f.mu.sizes[name]
	// A recycled log keeps its size while its beginning is written again.
	if more <= 0 {
		return nil
	}
	if f.mu.space > 0 && f.mu.used+more > f.mu.space {
		return &os.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
	}
	f.mu.used += more
	f.mu.sizes[name] = to
	return nil
}

// forget releases the space of a removed file, or moves its accounting to the new name. renamed is empty for a
// removal.
func (f *FS) forget(name, renamed string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	size, known := f.mu.sizes[name]
	if !known {
		return
	}
	delete(f.mu.sizes, name)
	if renamed == "" {
		f.mu.used -= size
		return
	}
	// A rename replaces the file that had the new name, whose space is free then.
	f.mu.used -= f.mu.sizes[renamed]
	f.mu.sizes[renamed] = size
}

// wrap returns a file whose operations call check; it passes err on.
func (f *FS) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &faultFile{File: file, fs: f, name: name}, nil
}

// Create implements vfs.FS.
func (f *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.check(OpCreate, name); err != nil {
		return nil, err
	}
	// Create truncates a file that exists.
	f.forget(name, "")
	file, err := f.FS.Create(name, category)
	return f.wrap(name, file, err)
}

// ReuseForWrite implements vfs.FS.
func (f *FS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.check(OpCreate, newname); err != nil {
		return nil, err
	}
	file, err := f.FS.ReuseForWrite(oldname, newname, category)
	if err == nil {
		f.forget(oldname, newname)
	}
	return f.wrap(newname, file, err)
}

// Open implements vfs.FS.
func (f *FS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := f.check(OpRead, name); err != nil {
		return nil, err
	}
	file, err := f.FS.Open(name, opts...)
	return f.wrap(name, file, err)
}

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := f.check(OpRead, name); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenReadWrite(name, category, opts...)
	return f.wrap(name, file, err)
}

// OpenDir implements vfs.FS. The directory's Sync is checked, so that a test can lose a rename.
func (f *FS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return f.wrap(name, file, err)
}

// Rename implements vfs.FS.
func (f *FS) Rename(oldname, newname string) error {
	if err := f.check(OpRename, newname); err != nil {
		return err
	}
	err := f.FS.Rename(oldname, newname)
	if err == nil {
		f.forget(oldname, newname)
	}
	return err
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	if err := f.check(OpRemove, name); err != nil {
		return err
	}
	err := f.FS.Remove(name)
	if err == nil {
		f.forget(name, "")
	}
	return err
}

// Unwrap implements vfs.FS.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// faultFile is a file of an FS. Like a vfs.File, it is used by one writer, and by any number of readers.
type faultFile struct {
	vfs.File
	fs   *FS
	name string
	end  int64 // where the next Write goes
}

// A write that fails writes nothing: partial writes are not simulated.
func (f *faultFile) Write(p []byte) (int, error) {
	if err := f.fs.check(OpWrite, f.name); err != nil {
		return 0, err
	}
	if err := f.fs.grow(f.name, f.end+int64(len(p))); err != nil {
		return 0, err
	}
	n, err := f.File.Write(p)
	f.end += int64(n)
	return n, err
}

// WriteAt fails as Write does.
func (f *faultFile) WriteAt(p []byte, at int64) (int, error) {
	if err := f.fs.check(OpWrite, f.name); err != nil {
		return 0, err
	}
	// end does not move: WriteAt has its own position.
	if err := f.fs.grow(f.name, at+int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, at)
}

func (f *faultFile) Read(p []byte) (int, error) {
	if err := f.fs.check(OpRead, f.name); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *faultFile) ReadAt(p []byte, at int64) (int, error) {
	if err := f.fs.check(OpRead, f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, at)
}

func (f *faultFile) Sync() error {
	if err := f.fs.check(OpSync, f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultFile) SyncData() error {
	if err := f.fs.check(OpSync, f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}

// SyncTo and SyncData are syncs like Sync.
func (f *faultFile) SyncTo(length int64) (bool, error) {
	if err := f.fs.check(OpSync, f.name); err != nil {
		return false, err
	}
	return f.File.SyncTo(length)
}

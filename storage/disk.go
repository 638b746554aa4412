package storage

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/storage/logguard"
)

const ballastFile = "CQLD_BALLAST"

// freeBytesEnough is the free space with which writes are accepted even if it is a small part of a large disk: enough
// for several memtables, their logs and the compactions that follow.
const freeBytesEnough = 1 << 30

// diskState is the state of the disk's free space. On a full disk Pebble retries flushes forever while writers block,
// so writes are refused earlier, and a ballast file is deleted if that was too late.
type diskState struct {
	full atomic.Bool
	// written is set by writes, and cleared by the watcher when it looks at the free space.
	written atomic.Bool
	wake    chan struct{} // ends the watcher's rest
	mu      sync.Mutex
	ballast bool // the file exists
	dropped bool // the file existed, and its space is in use
}

// watchedFS returns the file system for Pebble: when it is full, it deletes the ballast file and repeats the
// operation. A log that fails stops the engine, not Pebble.
func (e *Engine) watchedFS() vfs.FS {
	fs := e.opts.FS
	if fs == vfs.Default { // in memory, a file of zeros frees nothing
		fs = logguard.Ahead(fs)
	}
	e.guard = logguard.New(vfs.OnDiskFull(fs, func() {
		e.disk.full.Store(true)
		e.opts.Logger.Error("storage: the disk is full", "dir", e.opts.Dir)
		e.disk.mu.Lock()
		defer e.disk.mu.Unlock()
		if !e.disk.ballast {
			return
		}
		e.disk.ballast, e.disk.dropped = false, true
		if err := e.opts.FS.Remove(e.ballastPath()); err != nil {
			e.opts.Logger.Error("storage: cannot remove the ballast file", "error", err)
		}
	}), func() bool { return e.failed.Load() != nil }, e.fail)
	return e.guard
}

func (e *Engine) ballastPath() string { return e.opts.FS.PathJoin(e.opts.Dir, ballastFile) }

// openBallast creates the ballast file, if one is configured and there is space for it.
func (e *Engine) openBallast() {
	if e.opts.BallastBytes <= 0 {
		return
	}
	if free, total := e.opts.FreeSpace(); total > 0 && free < 4*e.opts.BallastBytes {
		return
	}
	e.disk.mu.Lock()
	defer e.disk.mu.Unlock()
	if e.disk.ballast {
		return
	}
	if info, err := e.opts.FS.Stat(e.ballastPath()); err == nil && info.Size() == e.opts.BallastBytes {
		e.disk.ballast = true
		return
	}
	if err := e.writeBallast(); err != nil {
		e.opts.Logger.Warn("storage: cannot create the ballast file", "error", err)
		_ = e.opts.FS.Remove(e.ballastPath())
		return
	}
	e.disk.ballast = true
}

func (e *Engine) writeBallast() error {
	f, err := e.opts.FS.Create(e.ballastPath(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = f.Preallocate(0, e.opts.BallastBytes)
	if err == nil {
		// If the file system cannot preallocate, the file has no size yet: write it.
		info, statErr := f.Stat()
		err = statErr
		zeros := make([]byte, 1<<20)
		for size := int64(0); err == nil && info.Size() < e.opts.BallastBytes && size < e.opts.BallastBytes; {
			n := min(int64(len(zeros)), e.opts.BallastBytes-size)
			_, err = f.Write(zeros[:n])
			size += n
		}
	}
	return errors.Join(err, f.Close())
}

// checkSpace checks the free space and decides whether writes are accepted.
func (e *Engine) checkSpace() {
	free, total := e.opts.FreeSpace()
	if total <= 0 { // unknown; after a real ENOSPC, try again
		e.disk.full.Store(false)
		return
	}
	threshold := freeSpaceMin
	if e.disk.full.Load() {
		threshold = freeSpaceResume
	}
	needed := threshold * float64(total)
	e.disk.mu.Lock()
	if e.disk.dropped {
		needed += float64(e.opts.BallastBytes) // the space of the deleted ballast file does not count as free
	}
	e.disk.mu.Unlock()
	full := float64(free) < needed && free < freeBytesEnough
	if was := e.disk.full.Swap(full); was != full {
		e.opts.Logger.Warn("storage: disk space", "writes refused", full, "free", free, "total", total)
	}
	if !full {
		e.disk.mu.Lock()
		e.disk.dropped = false
		e.disk.mu.Unlock()
		e.openBallast()
	}
}

// use records a write, so that the free space is checked soon.
func (d *diskState) use() {
	if d.written.Load() || d.written.Swap(true) {
		return
	}
	select {
	case d.wake <- struct{}{}:
	default: // the watcher does not rest, or has been woken
	}
}

// watchSpace checks the free space while the engine is open: every freeSpaceEvery while something is written or the
// disk is full, and otherwise, for the state that is shown, every freeSpaceRest.
func (e *Engine) watchSpace() {
	for e.pause(freeSpaceEvery) {
		written := e.disk.written.Swap(false)
		e.checkSpace()
		for stopped := false; !written && !stopped && !e.disk.full.Load(); e.checkSpace() {
			written, stopped = e.restUntilWrite()
		}
	}
}

// restUntilWrite waits for freeSpaceRest or a write. stopped means that the engine is being closed.
func (e *Engine) restUntilWrite() (written, stopped bool) {
	elapsed := make(chan struct{})
	timer := e.opts.Clock.After(freeSpaceRest, func() { close(elapsed) })
	defer timer.Stop()
	select {
	case <-elapsed:
		return false, false
	case <-e.disk.wake:
		return true, false
	case <-e.stop:
		return false, true
	}
}

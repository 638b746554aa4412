// Package space watches the free space of the disk. On a full disk Pebble retries flushes forever while writers block,
// so writes are refused earlier, and a ballast file is deleted if that was too late.
//
//	Use (a write) ─▶ Watch ─ every 250 ms ─▶ Check ─▶ Full: writes are refused below 5 % and 1 GiB
//	ENOSPC ────────▶ Overflow ─▶ the ballast is removed ─▶ Check: full until there is space for it again
package space

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
)

// BallastFile is the name of the ballast file in the directory of the engine.
const BallastFile = "CQLD_BALLAST"

// freeBytesEnough is the free space with which writes are accepted even if it is a small part of a large disk: enough
// for several memtables, their logs and the compactions that follow.
const freeBytesEnough = 1 << 30

const (
	// partMin and partResume are the parts of the disk that must be free: below partMin writes are refused, above
	// partResume they are accepted again.
	partMin    = 0.05
	partResume = 0.06
	// Every is the interval of checks of the free space during writes, so that writes are refused within a second.
	Every = 250 * time.Millisecond
	// Rest is the interval of checks while nothing is written, so that an idle node rests.
	Rest = 5 * time.Second
)

// Options configure a Watcher. All fields except Reclaim are required.
type Options struct {
	FS     vfs.FS
	Dir    string // that contains the ballast file
	Clock  env.Clock
	Logger *slog.Logger
	// Free returns the free and the total number of bytes of the disk; a total of 0 means that they are unknown.
	Free func() (free, total int64)
	// Reclaim removes dispensable data of the engine, and returns its size in bytes. It is called before writes are
	// refused, by any goroutine.
	Reclaim func() int64
	// BallastBytes is the size of the ballast file; no file is created if it is not positive.
	BallastBytes int64
}

// Watcher tracks whether the disk has free space. Its methods are safe for concurrent use. Each write reads full, so
// it is an atomic.
type Watcher struct {
	opts Options
	full atomic.Bool
	// written is set by writes, and cleared by Watch when it checks the free space.
	written atomic.Bool
	wake    chan struct{} // ends the rest of Watch
	mu      sync.Mutex
	ballast bool // the file exists
	dropped bool // the file existed, and its space is in use
}

// New returns a watcher that has not checked the disk yet.
func New(o Options) *Watcher { return &Watcher{opts: o, wake: make(chan struct{}, 1)} }

// Full reports whether the disk is nearly full, so that the engine refuses writes. Reads, flushes and compactions
// continue.
func (w *Watcher) Full() bool { return w.full.Load() }

// Overflow records that the disk is full, and deletes the ballast file. It is called at ENOSPC, by any goroutine, and
// possibly repeatedly.
func (w *Watcher) Overflow() {
	// Writes are refused from here on, so that the space of the ballast is left to flushes and compactions.
	w.full.Store(true)
	w.opts.Logger.Error("the disk is full", "dir", w.opts.Dir)
	w.reclaim()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ballast {
		return
	}
	w.ballast, w.dropped = false, true
	if err := w.opts.FS.Remove(w.BallastPath()); err != nil {
		w.opts.Logger.Error("cannot remove the ballast file", "err", err)
	}
}

// reclaim calls Options.Reclaim, and reports whether that freed space.
func (w *Watcher) reclaim() bool { return w.opts.Reclaim != nil && w.opts.Reclaim() > 0 }

// BallastPath returns the path of the ballast file.
func (w *Watcher) BallastPath() string { return w.opts.FS.PathJoin(w.opts.Dir, BallastFile) }

// OpenBallast creates the ballast file, if one is configured and there is space for it. A failure is logged only: a
// node works without a ballast.
func (w *Watcher) OpenBallast() {
	if w.opts.BallastBytes <= 0 {
		return
	}
	// A ballast file that nearly fills the disk would cause the failure that it should prevent.
	if free, total := w.opts.Free(); total > 0 && free < 4*w.opts.BallastBytes {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ballast {
		return
	}
	// A file of another size is from an interrupted write or another configuration, and is written again.
	if info, err := w.opts.FS.Stat(w.BallastPath()); err == nil && info.Size() == w.opts.BallastBytes {
		w.ballast = true
		return
	}
	if err := w.writeBallast(); err != nil {
		w.opts.Logger.Warn("cannot create the ballast file", "err", err)
		_ = w.opts.FS.Remove(w.BallastPath())
		return
	}
	w.ballast = true
}

// writeBallast creates the file and allocates its space. The file is not synced: after a crash it is written again if
// its size differs.
func (w *Watcher) writeBallast() error {
	f, err := w.opts.FS.Create(w.BallastPath(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = f.Preallocate(0, w.opts.BallastBytes)
	if err == nil {
		// If the file system cannot preallocate, the file has no size yet: write it.
		info, statErr := f.Stat()
		err = statErr
		zeros := make([]byte, 1<<20)
		for size := int64(0); err == nil && info.Size() < w.opts.BallastBytes && size < w.opts.BallastBytes; {
			n := min(int64(len(zeros)), w.opts.BallastBytes-size)
			_, err = f.Write(zeros[:n])
			size += n
		}
	}
	return errors.Join(err, f.Close())
}

// Check checks the free space and decides whether writes are accepted. The two thresholds keep the decision from
// changing at each check.
func (w *Watcher) Check() {
	full, free, total := w.measure()
	if total <= 0 { // unknown; after a real ENOSPC, try again
		w.full.Store(false)
		return
	}
	if full && w.reclaim() {
		full, free, total = w.measure()
	}
	if was := w.full.Swap(full); was != full {
		w.opts.Logger.Warn("disk space", "writes refused", full, "free", free, "total", total)
	}
	if !full {
		w.mu.Lock()
		w.dropped = false
		w.mu.Unlock()
		w.OpenBallast()
	}
}

// measure reads the free space, and compares it with the threshold.
func (w *Watcher) measure() (full bool, free, total int64) {
	free, total = w.opts.Free()
	threshold := partMin
	if w.full.Load() {
		threshold = partResume
	}
	needed := threshold * float64(total)
	w.mu.Lock()
	if w.dropped {
		needed += float64(w.opts.BallastBytes) // the space of the deleted ballast file does not count as free
	}
	w.mu.Unlock()
	return float64(free) < needed && free < freeBytesEnough, free, total
}

// Use records a write, so that the free space is checked soon.
func (w *Watcher) Use() {
	if w.written.Load() || w.written.Swap(true) {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default: // the watcher does not rest, or has been woken
	}
}

// Watch checks the free space until stop is closed: at intervals of Every while writes arrive or the disk is full,
// and otherwise at intervals of Rest, so that metrics stay current.
func (w *Watcher) Watch(stop <-chan struct{}) {
	for env.Pause(w.opts.Clock, Every, nil, stop) {
		// written is cleared before the check, so that a write during the check causes another one.
		written := w.written.Swap(false)
		w.Check()
		// A full disk is checked often even without writes, so that writes are soon accepted again.
		for !written && !w.full.Load() {
			if !env.Pause(w.opts.Clock, Rest, w.wake, stop) {
				return
			}
			written = w.written.Load()
			w.Check()
		}
	}
}

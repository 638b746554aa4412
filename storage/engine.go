package storage

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/storage/backlog"
	"cqld/storage/bounds"
	"cqld/storage/database"
	"cqld/storage/dropped"
	"cqld/storage/failure"
	"cqld/storage/format"
	"cqld/storage/headers"
	"cqld/storage/latch"
	"cqld/storage/lost"
	"cqld/storage/pause"
	"cqld/storage/reading"
	"cqld/storage/space"
)

// Engine is one node's storage. All methods are safe for concurrent use, except Close, which must come last.
type Engine struct {
	opts Options
	db   *database.DB

	latches     latch.Latches
	headers     headers.Flags
	bounds      bounds.Bounds
	maintainers []*maintainer
	reads       *reading.Reads
	watched     watch

	// queue contains the groups that wait for the committer, or for a caller of Commit.
	queue struct {
		sync.Mutex
		wake   *sync.Cond
		groups []*group // the last group is being filled
		spare  []*group
		bytes  int
		// committing means that a goroutine is committing a group; it or the committer continues with the next.
		committing bool
		syncDue    bool
		closing    bool
		periodic   env.Timer
	}
	// dropped contains the tables that this process has dropped. DropTable adds them with queue locked.
	dropped dropped.Tables
	// inline serializes commits of an engine without a committer.
	inline sync.Mutex

	hot  *backlog.Crowded
	disk *space.Watcher

	sweeper   sweeper
	reclaimer reclaimer
	lost      lost.Ranges
	lostMu    sync.Mutex // serializes changes of lost

	ingestions atomic.Int64 // started
	counters   counters
	// Commits, and waits for their fsync, that took long.
	pauses    pause.Counts
	slowSyncs pause.Durations
	// owned tracks the goroutines for which Close waits; stop ends their waits.
	owned sync.WaitGroup
	stop  chan struct{}
}

// Open opens the storage in a directory, which it creates if necessary.
func Open(o Options) (*Engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := format.Check(o.FS, o.Dir); err != nil {
		if bad := new(format.Malformed); errors.As(err, &bad) {
			err = &failure.CorruptError{Path: bad.Path, Err: err}
		}
		return nil, err
	}
	lock, err := lockDirectory(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	e, err := openLocked(o, lock)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return e, nil
}

// lockDirectory acquires the lock of dir, which excludes other processes. Until then nothing in dir may change, because
// a running node may use it.
func lockDirectory(disk vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, disk)
	if errors.Is(err, syscall.EAGAIN) {
		return nil, fmt.Errorf("storage: open %s: %w", dir, failure.ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("storage: lock %s: %w", dir, err)
	}
	return lock, nil
}

// openLocked opens the storage in a directory that is locked. The caller releases the lock if it fails.
func openLocked(o Options, lock *pebble.Lock) (_ *Engine, err error) {
	e := &Engine{opts: o, stop: make(chan struct{})}
	e.latches.Off = o.noLatch
	e.hot, e.sweeper.dead = backlog.NewCrowded(foldQueueMax), backlog.NewDead(deadPartitionsMax)
	e.disk = space.New(space.Options{
		FS: o.FS, Dir: o.Dir, Clock: o.Clock, Logger: o.Logger, Free: o.FreeSpace, BallastBytes: o.BallastBytes,
	})
	e.queue.wake = sync.NewCond(&e.queue.Mutex)
	e.disk.OpenBallast()
	if err := e.clearIngestions(); err != nil {
		return nil, fmt.Errorf("storage: open %s: %w", o.Dir, err)
	}
	e.db, err = database.Open(database.Options{
		Dir: o.Dir, FS: o.FS, Lock: lock, Logger: o.Logger,
		CacheBytes: o.CacheBytes, MemTableBytes: o.MemTableBytes, BlockBytes: o.blockBytes,
		SyncLog: o.Sync != SyncNone, Inline: o.Inline,
		Crowded: e.hot.Add, DiskFull: e.disk.Overflow, OnFatal: o.OnFatal, OnCorruption: o.OnCorruption,
	})
	if err != nil {
		return nil, err
	}
	e.reads = reading.New(reading.Options{
		DB: e.db, Logger: o.Logger, Table: o.Table, Dropped: e.isDropped,
		Headers: &e.headers, Bounds: &e.bounds, Lost: &e.lost, Hot: e.hot, Fold: e.foldHot, Dead: e.sweeper.dead,
		PageBytes: o.PageBytes, FilterRows: o.FilterRows, ShadowedRows: o.ShadowedRows, SkipAfter: o.skipAfter,
	})
	err = errors.Join(e.loadHeaderFlags(), e.loadBounds(), e.openMaintainers(), e.loadLost(), e.loadPass())
	if err != nil {
		return nil, errors.Join(err, e.db.DB.Close()) // the caller releases the lock
	}
	e.disk.Check()
	e.start()
	return e, nil
}

// start starts the goroutines of an engine that has any.
func (e *Engine) start() {
	if e.opts.Inline {
		return
	}
	e.owned.Go(e.commitLoop)
	e.owned.Go(func() { e.disk.Watch(e.stop) })
	e.sweeper.dead.Wake = make(chan struct{}, 1)
	if !e.opts.NoSweep {
		e.owned.Go(e.sweepLoop)
	}
	if e.opts.Sync == SyncPeriodic {
		e.armPeriodic()
	}
}

// Close commits the applied mutations and closes the database. It does not close a database that failed during an
// operation, whose locks are held permanently.
func (e *Engine) Close() error {
	close(e.stop)
	e.queue.Lock()
	e.queue.closing = true
	if e.queue.periodic != nil {
		e.queue.periodic.Stop()
	}
	e.queue.wake.Broadcast()
	e.queue.Unlock()
	if e.db.Wedged() { // the committer may never return
		return e.db.Err()
	}
	e.owned.Wait()
	return e.db.Close()
}

// Flush writes the memtables to disk. It should not be called periodically, because it makes memtables small.
func (e *Engine) Flush() error { return e.db.Flush() }

// Checkpoint creates a copy of the database in dir, which must not exist. Files are linked if the file system can.
func (e *Engine) Checkpoint(dir string) error { return e.db.Checkpoint(dir) }

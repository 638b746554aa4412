package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/schema"
	"cqld/storage/backlog"
	"cqld/storage/bounds"
	"cqld/storage/database"
	"cqld/storage/dropped"
	"cqld/storage/failure"
	"cqld/storage/format"
	"cqld/storage/headers"
	"cqld/storage/latch"
	"cqld/storage/logarchive"
	"cqld/storage/lost"
	"cqld/storage/purge"
	"cqld/storage/reading"
	"cqld/storage/rowcache"
	"cqld/storage/space"
)

// Engine is one node's storage: a façade over its parts. All methods are safe for concurrent use, except Close, which
// must come last.
type Engine struct {
	*core
	commits  *committer
	removals *remover
	losses   *quarantine

	ingestions atomic.Int64 // started
}

// core is what the parts of an engine share. Its fields are set before the engine is used, and never replaced.
type core struct {
	opts     Options
	db       *database.DB
	latches  latch.Latches
	headers  headers.Flags
	bounds   bounds.Bounds
	disk     *space.Watcher
	lost     lost.Ranges
	hot      *backlog.Crowded
	dead     *backlog.Dead
	derived  *maintenance
	reads    *reading.Reads
	rows     *rowcache.Cache // nil without Options.RowCacheBytes
	purger   *purge.Purger
	archive  *logarchive.Keeper // nil without Options.Archive
	counters counters
	// dropped contains the tables that this process has dropped. DropTable adds them with the queue locked.
	dropped dropped.Tables
	// owned tracks the goroutines for which Close waits; stop ends their waits.
	owned sync.WaitGroup
	stop  chan struct{}
}

// isDropped reports whether DropTable has begun to remove the table.
func (e *core) isDropped(id schema.StorageID) bool { return e.dropped.Contains(id) }

// stopping reports whether the engine is being closed.
func (e *core) stopping() bool {
	select {
	// stopping never blocks: purges and walks call it between two steps.
	case <-e.stop:
		return true
	default:
		return false
	}
}

// Open opens the storage in a directory, which it creates if necessary.
func Open(o Options) (*Engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := format.Check(o.FS, o.Dir); err != nil {
		// A format file that cannot be read is corruption; an unknown version is not.
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
		// The lock is released, so that another process may try.
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
	shared := &core{opts: o, stop: make(chan struct{})}
	e := &Engine{core: shared, commits: &committer{core: shared}}
	e.removals = &remover{core: shared, commits: e.commits}
	e.losses = &quarantine{core: shared, commits: e.commits, removals: e.removals}
	e.derived = &maintenance{core: shared}
	// Pebble calls the merger, which reports hot rows, and the handler of a full disk, which deletes the ballast,
	// while it opens the database. Both must exist before.
	e.rows = rowcache.New(o.RowCacheBytes)
	e.hot, e.dead = backlog.NewCrowded(foldQueueMax), backlog.NewDead(deadPartitionsMax)
	archive, err := openArchive(&o)
	if err != nil {
		return nil, fmt.Errorf("storage: open %s: %w", o.Dir, err)
	}
	e.archive = archive
	e.disk = space.New(space.Options{
		FS: o.FS, Dir: o.Dir, Clock: o.Clock, Logger: o.Logger, Free: o.FreeSpace, BallastBytes: o.BallastBytes,
		Reclaim: e.dropKept,
	})
	e.commits.queue.wake = sync.NewCond(&e.commits.queue.Mutex)
	// The ballast is created before Pebble writes, so that it never takes the last free bytes from a flush.
	e.disk.OpenBallast()
	// Files that a crash left in the ingestion directory are unknown to Pebble, and must be deleted.
	if err := clearIngestions(&o); err != nil {
		return nil, fmt.Errorf("storage: open %s: %w", o.Dir, err)
	}
	e.db, err = database.Open(database.Options{
		Dir: o.Dir, FS: o.FS, Lock: lock, Clock: o.Clock, Logger: o.Logger,
		CacheBytes: o.CacheBytes, MemTableBytes: o.MemTableBytes, BlockBytes: o.blockBytes,
		SyncLog: o.Sync != SyncNone, Archive: archive, Rows: e.rows, Inline: o.Inline,
		Crowded: e.hot.Add, DiskFull: e.disk.Overflow, OnFatal: o.OnFatal, OnCorruption: o.OnCorruption,
	})
	if err != nil {
		return nil, err
	}
	// Flags and bounds are loaded next; no read begins before Open returns.
	e.reads = reading.New(e.readOptions())
	e.purger = purge.New(purge.Options{
		DB: e.db, Latches: &e.latches, Bounds: &e.bounds, Disk: e.disk, Clock: o.Clock, Logger: o.Logger,
		Table: o.Table, Maintainers: e.derived, Dead: e.dead, PositionKey: sweptKey(), Stop: e.stop, Inline: o.Inline,
		PurgeRangeMin: o.purgeRangeMin, RunMin: o.runMin, SuspectBytes: o.suspectBytes,
	})
	err = errors.Join(e.loadHeaderFlags(), e.loadBounds(), e.derived.open(e), e.losses.loadLost(), e.purger.Load())
	if err != nil {
		return nil, errors.Join(err, e.db.DB.Close()) // the caller releases the lock
	}
	// The first write must already know whether the disk is full.
	e.disk.Check()
	e.start()
	return e, nil
}

// readOptions returns the dependencies of package reading on the engine.
func (e *core) readOptions() reading.Options {
	o := &e.opts
	return reading.Options{
		DB: e.db, Logger: o.Logger, Table: o.Table, Dropped: e.isDropped,
		Headers: &e.headers, Bounds: &e.bounds, Lost: &e.lost, Rows: e.rows, Hot: e.hot, Fold: e.foldHot,
		Dead:      e.dead,
		PageBytes: o.PageBytes, FilterRows: o.FilterRows, ShadowedRows: o.ShadowedRows, SkipAfter: o.skipAfter,
	}
}

// start starts the goroutines of an engine that has any.
func (e *Engine) start() {
	if e.opts.Inline {
		return
	}
	// Close waits for these goroutines, which end when stop is closed.
	e.owned.Go(e.commits.run)
	e.owned.Go(func() { e.disk.Watch(e.stop) })
	// The channel has a buffer of one, so that a notification of the purger is never lost and never blocks a read.
	e.dead.Wake = make(chan struct{}, 1)
	if !e.opts.NoSweep {
		e.owned.Go(e.purger.Run)
	}
	if e.opts.Sync == SyncPeriodic {
		e.commits.armPeriodic()
	}
}

// Close commits the applied mutations and closes the database. It does not close a database that failed during an
// operation, whose locks are held permanently.
func (e *Engine) Close() error {
	// stop is closed first, which ends all waits: Close must not take as long as a pass of the purger.
	close(e.stop)
	e.commits.close()
	if e.db.Wedged() { // the committer may never return
		return e.db.Err()
	}
	// No goroutine may call Pebble after it is closed.
	e.owned.Wait()
	return e.db.Close()
}

// Flush writes the memtables to disk. It should not be called periodically, because it makes memtables small.
func (e *Engine) Flush() error { return e.db.Flush() }

// FlushUntil is Flush that waits for the flush until ctx ends at the latest. The flush continues after that. While
// Pebble stalls writes, it waits as they do, whatever ctx says.
func (e *Engine) FlushUntil(ctx context.Context) error { return e.db.FlushUntil(ctx) }

// CheckFile compares the checksums of an sstable on the file system of the engine, which may be of a checkpoint. wait
// is called with the number of bytes that are read, and may return an error, which ends the call.
func (e *Engine) CheckFile(ctx context.Context, path string, wait func(context.Context, int) error) error {
	return e.db.CheckFile(ctx, path, wait)
}

// Checkpoint creates a copy of the database in dir, which must not exist. Files are linked if the file system can.
func (e *Engine) Checkpoint(dir string) error { return e.db.Checkpoint(dir) }

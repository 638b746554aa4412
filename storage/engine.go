package storage

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/schema"
	"cqld/storage/backlog"
	"cqld/storage/blockfilter"
	"cqld/storage/bounds"
	"cqld/storage/compaction"
	"cqld/storage/dropped"
	"cqld/storage/format"
	"cqld/storage/latch"
	"cqld/storage/logguard"
	"cqld/storage/merging"
	"cqld/storage/pause"
	"cqld/storage/rowkey"
	"cqld/storage/space"
)

// Engine is one node's storage. All methods are safe for concurrent use, except Close, which must come last.
type Engine struct {
	opts Options
	db   *pebble.DB
	lock *pebble.Lock // of the directory
	// pebble contains the options with which db was opened.
	pebble *pebble.Options

	latches     latch.Latches
	headers     headerFlags
	bounds      bounds.Bounds
	maintainers []*maintainer
	readers     sync.Pool // *reader
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
	// flushFailures counts failures of Pebble's background work since the engine was opened.
	flushFailures atomic.Int64

	hot  *backlog.Crowded
	disk *space.Watcher

	sweeper   sweeper
	reclaimer reclaimer
	lost      lostRanges

	failed     atomic.Pointer[error]
	guard      *logguard.FS
	broken     chan struct{} // closed when failed is set
	wedged     atomic.Bool   // Pebble's locks are held permanently
	opened     atomic.Bool
	stalls     atomic.Int64
	background atomic.Pointer[string] // the last error of background work
	ingestions atomic.Int64           // started
	counters   counters
	// Commits, and waits for their fsync, that took long.
	pauses     pause.Counts
	slowSyncs  pause.Durations
	quarantine struct {
		sync.Mutex
		found   []CorruptionInfo
		removed []CorruptionInfo // removed by Quarantine
	}
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
			err = &CorruptError{Path: bad.Path, Err: err}
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
		return nil, fmt.Errorf("storage: open %s: %w", dir, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("storage: lock %s: %w", dir, err)
	}
	return lock, nil
}

// openLocked opens the storage in a directory that is locked. The caller releases the lock if it fails.
func openLocked(o Options, lock *pebble.Lock) (_ *Engine, err error) {
	e := &Engine{opts: o, lock: lock, stop: make(chan struct{}), broken: make(chan struct{})}
	e.latches.Off = o.noLatch
	e.hot, e.sweeper.dead = backlog.NewCrowded(foldQueueMax), backlog.NewDead(deadPartitionsMax)
	e.disk = space.New(space.Options{
		FS: o.FS, Dir: o.Dir, Clock: o.Clock, Logger: o.Logger, Free: o.FreeSpace, BallastBytes: o.BallastBytes,
	})
	e.readers.New = func() any { return new(reader) }
	e.queue.wake = sync.NewCond(&e.queue.Mutex)
	e.disk.OpenBallast()
	cache := pebble.NewCache(o.CacheBytes + 2*o.MemTableBytes) // Pebble subtracts memtables; two are always there
	defer cache.Unref()
	if err := e.clearIngestions(); err != nil {
		return nil, fmt.Errorf("storage: open %s: %w", o.Dir, err)
	}
	e.pebble = e.pebbleOptions(cache)
	e.pebble.Lock = lock
	e.pebble.EnsureDefaults()
	e.db, err = pebble.Open(o.Dir, e.pebble)
	if err == nil {
		err = e.failedErr()
	}
	if err != nil {
		return nil, fmt.Errorf("storage: open %s: %w", o.Dir, e.failure(err))
	}
	e.opened.Store(true)
	e.guard.Opened()
	err = errors.Join(e.loadHeaderFlags(), e.loadBounds(), e.openMaintainers(), e.loadLost(), e.loadPass())
	if err != nil {
		return nil, errors.Join(err, e.db.Close())
	}
	e.disk.Check()
	e.start()
	return e, nil
}

// pebbleOptions returns the measured options for Pebble. The format major version is pinned: a newer Pebble must not
// change the disk by itself (format.Version).
func (e *Engine) pebbleOptions(cache *pebble.Cache) *pebble.Options {
	o := &pebble.Options{
		FS:                          e.watchedFS(),
		Cache:                       cache,
		Logger:                      pebbleLog{e},
		EventListener:               e.listener(),
		Merger:                      merging.New(e.hot.Add, badRow),
		FormatMajorVersion:          pebble.FormatValueSeparation,
		MemTableSize:                uint64(e.opts.MemTableBytes),
		MemTableStopWritesThreshold: memTablesMax,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       40,
		FlushSplitBytes:             2 << 20,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                1000,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
	}
	o.BlockPropertyCollectors = []func() pebble.BlockPropertyCollector{blockfilter.NewCollector}
	o.Experimental.SpanPolicyFunc = spanPolicy
	o.Experimental.CompactionScheduler = new(compaction.Scheduler)
	if e.opts.Inline {
		// The time at which background work ends must not change the result of a read.
		o.DisableAutomaticCompactions, o.L0StopWritesThreshold = true, 1<<20
		// A goroutine collects them for which a failed Open does not wait.
		o.DisableTableStats = true
	} else if e.opts.Sync != SyncNone {
		o.WALBytesPerSync = logBytesPerSync
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = e.opts.blockBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	return o
}

// watchedFS returns the file system for Pebble: when it is full, it deletes the ballast file and repeats the
// operation. A log that fails stops the engine, not Pebble.
func (e *Engine) watchedFS() vfs.FS {
	fs := e.opts.FS
	if fs == vfs.Default { // in memory, a file of zeros frees nothing
		fs = logguard.Ahead(fs)
	}
	failed := func() bool { return e.failed.Load() != nil }
	e.guard = logguard.New(vfs.OnDiskFull(fs, e.disk.Overflow), failed, e.fail)
	return e.guard
}

// spanPolicy ends each file where the tables of users begin. What the system writes all the time (Paxos state,
// entries of maintainers) lies before them: a flushed file with both would overlap everything between,
// and compactions would write all of it again, even when the users' rows come in order.
func spanPolicy(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
	if users := rowkey.AppendTable(nil, schema.FirstStorageID); bytes.Compare(start, users) < 0 {
		end = users
	}
	return policy, end, nil
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
	if e.wedged.Load() {
		return e.failedErr()
	}
	e.owned.Wait()
	err := errors.Join(e.db.Close(), e.lock.Close())
	if failed := e.failedErr(); failed != nil {
		return failed
	}
	return e.failure(err)
}

// Flush writes the memtables to disk. It should not be called periodically, because it makes memtables small.
func (e *Engine) Flush() error {
	if err := e.failedErr(); err != nil {
		return err
	}
	flushed, err := e.db.AsyncFlush()
	if err != nil {
		return e.failure(err)
	}
	select {
	case <-flushed:
	case <-e.broken: // a flush may be retried forever
	}
	return e.failedErr()
}

// Checkpoint creates a copy of the database in dir, which must not exist. Files are linked if the file system can.
func (e *Engine) Checkpoint(dir string) error {
	if err := e.failedErr(); err != nil {
		return err
	}
	return e.checkpoint(dir)
}

func (e *Engine) checkpoint(dir string, options ...pebble.CheckpointOption) error {
	made := make(chan error, 1)
	go func() { made <- e.db.Checkpoint(dir, append(options, pebble.WithFlushedWAL())...) }()
	var err error
	select {
	case err = <-made:
	case <-e.broken:
		if e.wedged.Load() { // Pebble's locks are held permanently
			return e.failedErr()
		}
		err = <-made
	}
	if failed := e.failedErr(); failed != nil {
		return failed // the log in the copy may be incomplete
	}
	if err != nil {
		return e.failure(err)
	}
	return format.Write(e.opts.FS, dir)
}

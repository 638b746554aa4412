package storage

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"cqld/internal/env"
	"cqld/schema"
	"cqld/storage/logguard"
)

// Engine is one node's storage. All methods may be called from several goroutines at once, except
// Close, which comes last.
type Engine struct {
	opts Options
	db   *pebble.DB
	// pebble is what db was opened with.
	pebble *pebble.Options

	latches latches
	headers headerFlags
	index   partitionIndex
	readers sync.Pool // *reader
	watched watch

	// What waits for the committer, or for a caller of Commit.
	queue struct {
		sync.Mutex
		wake   *sync.Cond
		groups []*group // the last one is being filled
		spare  []*group
		bytes  int
		// committing says that somebody commits a group; it or the committer goes on with the next.
		committing bool
		syncDue    bool
		closing    bool
		periodic   env.Timer
	}
	// dropped holds the dropped tables of this process. DropTable replaces the map with queue locked; nil means none.
	dropped atomic.Pointer[map[schema.StorageID]bool]
	// inline serializes commits of an engine without a committer.
	inline sync.Mutex
	// flushFailures counts failures of Pebble's background work since the engine was opened.
	flushFailures atomic.Int64

	hot  hotRows
	disk diskState

	sweeper   sweeper
	reclaimer reclaimer
	lost      lostRanges

	failed     atomic.Pointer[error]
	guard      *logguard.FS
	broken     chan struct{} // closed when failed is set
	wedged     atomic.Bool   // Pebble's locks are held for ever
	opened     atomic.Bool
	stalls     atomic.Int64
	background atomic.Pointer[string] // the last failure of background work
	ingestions atomic.Int64           // begun
	counters   counters
	quarantine struct {
		sync.Mutex
		found   []CorruptionInfo
		removed []CorruptionInfo // by Quarantine
	}
	// owned counts the goroutines that Close waits for; stop ends their waits.
	owned sync.WaitGroup
	stop  chan struct{}
}

// Open opens the storage in a directory, which it makes when it is not there.
func Open(o Options) (*Engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkFormat(o.FS, o.Dir); err != nil {
		return nil, err
	}
	e := &Engine{opts: o, stop: make(chan struct{}), broken: make(chan struct{})}
	e.latches.off = o.noLatch
	e.readers.New = func() any { return new(reader) }
	e.queue.wake = sync.NewCond(&e.queue.Mutex)
	e.openBallast()
	cache := pebble.NewCache(o.CacheBytes)
	defer cache.Unref()
	if err := e.clearIngestions(); err != nil {
		return nil, fmt.Errorf("storage: open %s: %w", o.Dir, err)
	}
	e.pebble = e.pebbleOptions(cache)
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
	if err := errors.Join(e.loadHeaderFlags(), e.loadIndexes(), e.loadLost()); err != nil {
		return nil, errors.Join(err, e.db.Close())
	}
	e.checkSpace()
	e.start()
	return e, nil
}

// pebbleOptions says what measurements.md §1 found. The format major version is pinned: a newer
// Pebble must not change the disk by itself (FormatVersion).
func (e *Engine) pebbleOptions(cache *pebble.Cache) *pebble.Options {
	o := &pebble.Options{
		FS:                          e.watchedFS(),
		Cache:                       cache,
		Logger:                      pebbleLog{e},
		EventListener:               e.listener(),
		Merger:                      newMerger(e.hot.add),
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
	o.Experimental.SpanPolicyFunc = spanPolicy
	if e.opts.Inline {
		// When background work happens to be done must not change what a read meets.
		o.DisableAutomaticCompactions, o.L0StopWritesThreshold = true, 1<<20
		// They are gathered in a goroutine that an Open which fails does not wait for.
		o.DisableTableStats = true
	}
	for i := range o.Levels {
		o.Levels[i].BlockSize = 16 << 10
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	return o
}

// spanPolicy ends each file where the tables of users begin. What the system writes all the time (Paxos state,
// entries of the partition index) lies before them: a flushed file with both would overlap everything between,
// and compactions would write all of it again, even when the users' rows come in order.
func spanPolicy(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
	if users := appendTable(nil, schema.FirstStorageID); bytes.Compare(start, users) < 0 {
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
	e.owned.Go(e.watchSpace)
	e.owned.Go(e.sweepLoop)
	if e.opts.Sync == SyncPeriodic {
		e.armPeriodic()
	}
}

// Close commits what was applied and closes the database. One that failed in the midst of its work is
// only let go of: its locks are held for ever.
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
	err := e.db.Close()
	if failed := e.failedErr(); failed != nil {
		return failed
	}
	return e.failure(err)
}

// Flush writes the memtables to disk. Do not call it on a timer: it makes the next ones small.
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
	case <-e.broken: // it may be tried for ever
	}
	return e.failedErr()
}

// Checkpoint makes a copy of the database in dir, which must not be there: a snapshot. Files are
// linked where the file system can.
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
		return failed // the log in the copy may lack something
	}
	if err != nil {
		return e.failure(err)
	}
	return writeFormat(e.opts.FS, dir)
}

// Package database opens one Pebble database as storage needs it, and keeps its state after a failure.
//
// Pebble exits the process when its log or its MANIFEST cannot be written, and panics with its locks held when a commit
// fails. A DB stops instead: Err returns the reason from then on, nothing that was not acknowledged is acknowledged,
// and the node that owns the DB must stop. Every commit therefore defers Recover and checks Err before it reports
// success.
package database

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/schema"
	"cqld/storage/blockfilter"
	"cqld/storage/compaction"
	"cqld/storage/encryption"
	"cqld/storage/failure"
	"cqld/storage/format"
	"cqld/storage/logarchive"
	"cqld/storage/logguard"
	"cqld/storage/merging"
	"cqld/storage/rowcache"
	"cqld/storage/rowkey"
)

// Options configure a DB. All fields except Archive and Rows are required.
type Options struct {
	Dir    string
	FS     vfs.FS
	Lock   *pebble.Lock // of Dir; Close releases it
	Clock  env.Clock
	Logger *slog.Logger

	// Sizes of the block cache and of one memtable. Writes stall when memTablesMax of the latter are full.
	CacheBytes    int64
	MemTableBytes int64
	BlockBytes    int // of a block of a file before compression
	// SyncLog makes the kernel write the log in the background, so that less is left to sync when a memtable is full.
	SyncLog bool
	// Archive keeps the logs, and adds a stamp to each batch. Nil means that Pebble removes its logs.
	Archive *logarchive.Keeper
	// Rows is the cache of rows, from which writes remove what they change. Nil means that there is none.
	Rows *rowcache.Cache
	// Inline disables features that make results depend on the progress of Pebble's goroutines.
	Inline bool

	Crowded      func(key []byte)     // is called for keys with many merge operands
	DiskFull     func()               // is called when an operation finds the disk full, before it is repeated
	OnFatal      func(error)          // is called once, with Pebble's locks held
	OnCorruption func(CorruptionInfo) // is called when corrupt data is found
}

// DB is a Pebble database that stops, instead of the process, when Pebble cannot continue.
type DB struct {
	*pebble.DB
	// Format contains the options with which the database was opened, for writers of files that it ingests.
	Format *pebble.Options

	opts  Options
	guard *logguard.FS

	// failed is set once, by Fail. Every commit checks it before it acknowledges.
	failed atomic.Pointer[error]
	broken chan struct{} // closed when failed is set
	wedged atomic.Bool   // Pebble's locks are held permanently
	opened atomic.Bool
	// stalls counts how often Pebble stalled writers since the database was opened.
	stalls atomic.Int64
	// flushFailures counts failures of Pebble's background work since the database was opened.
	flushFailures atomic.Int64
	background    atomic.Pointer[string] // the last error of background work
	closed        atomic.Bool
	corrupt       struct {
		sync.Mutex
		found []CorruptionInfo // at most corruptionsMax
		// removed lists corrupt files that were removed from the database. Compactions that read them before may
		// report them again.
		removed []CorruptionInfo
	}
}

// Open opens the database in a directory that the caller has locked. The caller releases the lock if Open fails.
func Open(o Options) (*DB, error) {
	// Pebble may call the listener during Open, so db is complete except for db.DB.
	db := &DB{opts: o, broken: make(chan struct{})}
	// Pebble subtracts memtables from the cache, and two of them always exist.
	cache := pebble.NewCache(o.CacheBytes + 2*o.MemTableBytes)
	defer cache.Unref() // Pebble has a reference of its own
	db.Format = db.pebbleOptions(cache)
	db.Format.Lock = o.Lock
	// EnsureDefaults is called before Open, so that Format has the values that Pebble uses.
	db.Format.EnsureDefaults()
	opened, err := pebble.Open(o.Dir, db.Format)
	if err == nil {
		err = db.Err() // Fatalf returns to Open
	}
	if err != nil {
		return nil, fmt.Errorf("storage: open %s: %w", o.Dir, failure.Of(db.guard.Named(err)))
	}
	db.DB = opened
	// From here on, Fatalf blocks background work instead of returning to it.
	db.opened.Store(true)
	db.guard.Opened()
	if a := db.opts.Archive; a != nil {
		if err := a.Opened(); err != nil {
			return nil, errors.Join(err, opened.Close())
		}
	}
	return db, nil
}

// pebbleOptions returns the measured options for Pebble. The format major version is pinned: a newer Pebble must not
// change the disk by itself (format.Version).
func (db *DB) pebbleOptions(cache *pebble.Cache) *pebble.Options {
	o := &pebble.Options{
		FS:                          db.watchedFS(),
		Cache:                       cache,
		Logger:                      pebbleLog{db},
		EventListener:               db.listener(),
		Merger:                      merging.New(db.opts.Crowded, failure.BadRow),
		FormatMajorVersion:          pebble.FormatValueSeparation,
		MemTableSize:                uint64(db.opts.MemTableBytes),
		MemTableStopWritesThreshold: memTablesMax,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       40,
		FlushSplitBytes:             2 << 20,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                1000,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
	}
	collector := blockfilter.NewCollector
	// The remaining options depend on the mode: with Inline, a simulation must give the same results each time.
	o.Experimental.SpanPolicyFunc = spanPolicy
	o.Experimental.CompactionScheduler = new(compaction.Scheduler)
	if db.opts.Inline {
		// With Inline, the time at which background work ends must not change the result of a read.
		o.DisableAutomaticCompactions, o.L0StopWritesThreshold = true, 1<<20
		// A goroutine collects table statistics, and a failed Open does not wait for it.
		o.DisableTableStats = true
	} else {
		collector = compaction.Yielding(db.opts.Clock, collector)
		if db.opts.SyncLog {
			o.WALBytesPerSync = LogBytesPerSync
		}
	}
	if db.opts.Archive != nil {
		o.Cleaner = logarchive.Cleaner()
	}
	o.BlockPropertyCollectors = []func() pebble.BlockPropertyCollector{collector}
	// With ten bits per key, about one lookup in a hundred reads a block in vain.
	for i := range o.Levels {
		o.Levels[i].BlockSize = db.opts.BlockBytes
		o.Levels[i].IndexBlockSize = indexBlocks * db.opts.BlockBytes
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	return o
}

// watchedFS returns the file system for Pebble: when it is full, it deletes the ballast file and repeats the
// operation. A log that fails stops the database, not the process.
func (db *DB) watchedFS() vfs.FS {
	fs := db.opts.FS
	// Ahead writes zeros ahead of a log, which saves nothing in a file system in memory.
	if fs == vfs.Default {
		fs = logguard.Ahead(fs)
	}
	// The zeros are written below the encryption: encrypted zeros that are overwritten later would reveal the key
	// stream.
	if encrypted, ok := fs.(*encryption.FS); ok && encrypted.Unwrap() == vfs.Default {
		fs = encrypted.Over(logguard.Ahead)
	}
	failed := func() bool { return db.failed.Load() != nil }
	fs = vfs.OnDiskFull(fs, db.opts.DiskFull)
	if db.opts.Archive != nil {
		fs = db.opts.Archive.FS(fs)
	}
	db.guard = logguard.New(fs, failed, db.Fail)
	return db.guard
}

// spanPolicy ends each file where the tables of users begin. Keys that the system writes constantly (Paxos state,
// entries of maintainers) sort before them: a flushed file with both would overlap everything between, and
// compactions would write all of it again, even when the users' rows come in order.
func spanPolicy(start []byte) (policy pebble.SpanPolicy, end []byte, err error) {
	if users := rowkey.AppendTable(nil, schema.FirstStorageID); bytes.Compare(start, users) < 0 {
		end = users
	}
	return policy, end, nil
}

// Wedged reports whether Pebble's locks are held permanently, so that no call of Pebble may return.
func (db *DB) Wedged() bool { return db.wedged.Load() }

// Broken returns a channel that is closed when the database fails.
func (db *DB) Broken() <-chan struct{} { return db.broken }

// Stalls returns how often Pebble stalled writers.
func (db *DB) Stalls() int64 { return db.stalls.Load() }

// Close closes the database, unless its locks are held permanently, and releases the lock of its directory.
func (db *DB) Close() error {
	// Pebble's Close would wait for its own locks. The lock of the directory stays until the process ends.
	if db.wedged.Load() {
		return db.Err()
	}
	invariant.Check(!db.closed.Swap(true), "database: closed twice")
	err := errors.Join(db.DB.Close(), db.opts.Lock.Close())
	// The first failure is the cause of any error of Close.
	if failed := db.Err(); failed != nil {
		return failed
	}
	return failure.Of(err)
}

// Flush writes the memtables to disk, and waits for it.
func (db *DB) Flush() error { return db.FlushUntil(context.Background()) }

// FlushUntil is Flush that waits for the flush until ctx ends at the latest. The flush continues after that. While
// Pebble stalls writes, it waits as they do, whatever ctx says.
func (db *DB) FlushUntil(ctx context.Context) error {
	if err := db.Err(); err != nil {
		return err
	}
	flushed, err := db.AsyncFlush()
	if err != nil {
		return failure.Of(err)
	}
	select {
	case <-flushed:
	case <-db.broken: // a flush may be retried forever
	case <-ctx.Done():
		return ctx.Err()
	}
	return db.Err()
}

// Checkpoint creates a copy of the database in dir, which must not exist. Files are linked if the file system can.
func (db *DB) Checkpoint(dir string, options ...pebble.CheckpointOption) error {
	if err := db.Err(); err != nil {
		return err
	}
	made := make(chan error, 1)
	// Pebble's call takes no context, so another goroutine waits for it, and a failure of the database ends this
	// call.
	go func() { made <- db.DB.Checkpoint(dir, append(options, pebble.WithFlushedWAL())...) }()
	var err error
	select {
	case err = <-made:
	case <-db.broken:
		if db.wedged.Load() { // Pebble's locks are held permanently
			return db.Err()
		}
		err = <-made
	}
	if failed := db.Err(); failed != nil {
		return failed // the log in the copy may be incomplete
	}
	if err != nil {
		return failure.Of(err)
	}
	return format.Write(db.opts.FS, dir)
}

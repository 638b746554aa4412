package database

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/storage/failure"
	"cqld/storage/logguard"
	"cqld/storage/merging"
)

// readOnlyCacheBytes is the size of the block cache of a database that is read once, in the order of its keys.
const readOnlyCacheBytes = 2 << 20

// OpenReadOnly opens a copy of a database for reading. It adds no file to the directory and changes none.
func OpenReadOnly(fs vfs.FS, dir string, log *slog.Logger) (*pebble.DB, error) {
	// A read-only database has no commits that could fail it; only Pebble's logger uses db.
	db := &DB{opts: Options{Logger: log, OnFatal: func(error) {}}, broken: make(chan struct{})}
	err := db.openCopy(unlocked{fs}, dir, func(o *pebble.Options) { o.ReadOnly = true })
	return db.DB, err
}

// OpenReplay opens a copy of a database to which batches of a log are added. It has no log of its own: what was added
// and not flushed is lost at Close. It compacts nothing. The caller flushes after batches of about flushBytes, so
// that a failing flush does not block Apply forever. The memtable has twice the space, because entries take more
// than their bytes.
func OpenReplay(fs vfs.FS, dir string, flushBytes int, log *slog.Logger) (*DB, error) {
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		return nil, fmt.Errorf("storage: lock %s: %w", dir, err)
	}
	db := &DB{
		opts:   Options{Logger: log, Lock: lock, OnFatal: func(error) {}, OnCorruption: func(CorruptionInfo) {}},
		broken: make(chan struct{}),
	}
	err = db.openCopy(fs, dir, func(o *pebble.Options) {
		o.Lock, o.DisableWAL = lock, true
		o.MemTableSize, o.MemTableStopWritesThreshold = uint64(2*flushBytes), memTablesMax
		// Each flush adds a file, and no compaction removes it, so the limits on level 0 are lifted.
		o.L0CompactionThreshold, o.L0StopWritesThreshold = 1<<20, 1<<20
		o.EventListener = db.listener()
		// Pebble would retry a failing flush forever. The copy fails instead.
		o.EventListener.BackgroundError = db.Fail
	})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	db.opened.Store(true)
	return db, nil
}

// openCopy sets db.DB to a copy of a database in dir, opened with options that adjust completes.
func (db *DB) openCopy(fs vfs.FS, dir string, adjust func(*pebble.Options)) error {
	cache := pebble.NewCache(readOnlyCacheBytes)
	defer cache.Unref() // Pebble has a reference of its own
	db.guard = logguard.New(fs, func() bool { return false }, db.Fail)
	o := &pebble.Options{
		FS: db.guard, Cache: cache, Logger: pebbleLog{db},
		Merger:             merging.New(func([]byte) {}, failure.BadRow),
		FormatMajorVersion: pebble.FormatValueSeparation,
		MaxOpenFiles:       100, DisableAutomaticCompactions: true, DisableTableStats: true,
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
	}
	adjust(o)
	opened, err := pebble.Open(dir, o)
	if err == nil && db.Err() != nil {
		err = db.Err() // Fatalf returns to Open
	}
	if err != nil {
		return fmt.Errorf("storage: open the copy in %s: %w", dir, failure.Of(db.guard.Named(err)))
	}
	db.DB = opened
	return nil
}

// unlocked is a file system on which a database does not lock its directory, which would add a file. Nothing writes to
// the directory, and several readers may have it open.
type unlocked struct{ vfs.FS }

// Lock implements vfs.FS.
func (unlocked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

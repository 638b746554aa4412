package storage

import (
	"errors"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/schema"
	"cqld/storage/database"
	"cqld/storage/encryption"
	"cqld/storage/logarchive"
	"cqld/storage/tableinfo"
)

// SyncMode determines when a write counts as durable.
type SyncMode uint8

// The modes.
const (
	// SyncBatch acknowledges a write when it is on disk. Concurrent writes share one fsync.
	SyncBatch SyncMode = iota
	// SyncPeriodic acknowledges a write immediately; an fsync follows every SyncPeriod. A crash of the machine loses
	// the writes since the last one, and a crash of the process nearly none.
	SyncPeriodic
	// SyncNone acknowledges a write immediately and never calls fsync. It is for tests, and for simulations that must
	// detect it.
	SyncNone
)

// nameOf returns a table's name, or its number if that is unknown.
func (e *core) nameOf(id schema.StorageID) string {
	// The name is used in messages only; a dropped table has none.
	info := e.opts.Table(id)
	return info.Name(id)
}

// Options configure an Engine. Zero values mean the defaults of limits.go.
type Options struct {
	Dir    string
	FS     vfs.FS // nil means the operating system's
	Clock  env.Clock
	Logger *slog.Logger

	Sync       SyncMode
	SyncPeriod time.Duration

	CacheBytes    int64 // of the cache of blocks
	RowCacheBytes int64 // of the cache of rows; less than rowcache.BytesMin means that there is none
	MemTableBytes int64
	PendingBytes  int // of mutations that wait for the committer
	PageBytes     int
	FilterRows    int // that a page of a filtered read may omit
	ShadowedRows  int // rows shadowed by deletions from which a read has them purged

	// Table returns the properties of a table that storage needs; it is called often and must be quick. Nil means
	// that every table exists and nothing is purged.
	Table func(schema.StorageID) tableinfo.Info

	// Maintainers keep entries that are derived from rows (Maintainer). Each belongs to this engine alone.
	Maintainers []Maintainer
	// Lister answers Engine.Partitions, usually by the entries of one of the maintainers. Nil means that the engine
	// keeps the partition keys of no table in their order.
	Lister PartitionLister

	// OnFatal is called once when the engine cannot continue: the log or the MANIFEST could not be written. Nothing
	// is acknowledged after that, and the node must stop. It is called with Pebble's locks held, and must not call
	// the Engine.
	OnFatal func(error)
	// OnCorruption is called when corrupt data is found. It must not call the Engine.
	OnCorruption func(database.CorruptionInfo)

	// Archive makes the engine keep its log until it was read and released (Log). Nil means that the log is not
	// archived, which ends an archive that an earlier process began.
	Archive *logarchive.Options

	// Guard recovers panics in the callbacks of writes, so that they do not reach the committer. Nil means that they
	// are not recovered.
	Guard *guard.Guard

	// FreeSpace returns the free and the total number of bytes of the disk. Nil means that the file system is asked.
	FreeSpace func() (free, total int64)
	// BallastBytes is the size of the file that is deleted when the disk is full. Zero means the default on a real
	// disk and no file otherwise; a negative value means no file.
	BallastBytes int64

	// Inline creates an engine without goroutines of its own, for the simulation: Apply commits before it returns,
	// the purger runs only in calls of Sweep, and an ingestion waits for Pebble's flushes.
	Inline bool

	// These fields replace constants in tests, so that few rows suffice. runMin replaces sweepBatch in endRun.
	purgeRangeMin, runMin, blockBytes, suspectBytes, ceilingSlack, skipAfter int
	// NoSweep restricts sweeps to calls of Sweep, for tests whose models must know when data is purged.
	NoSweep bool
}

// withDefaults returns o with all fields set, or an error.
func (o Options) withDefaults() (Options, error) {
	if o.Clock == nil || o.Dir == "" {
		return o, errors.New("storage: Options need a Clock and a Dir")
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	// Deleting a file of an in-memory file system frees no disk space, so the default applies to a real disk only.
	if o.BallastBytes == 0 && encryption.Below(o.FS) == vfs.Default {
		o.BallastBytes = ballastBytesDefault
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.SyncPeriod <= 0 {
		o.SyncPeriod = syncPeriodDefault
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = cacheBytesDefault
	}
	if o.MemTableBytes <= 0 {
		o.MemTableBytes = memTableBytesDefault
	}
	if o.PendingBytes <= 0 {
		o.PendingBytes = PendingBytesMax
	}
	if o.PageBytes <= 0 {
		o.PageBytes = pageBytesMax
	}
	if o.FilterRows <= 0 {
		o.FilterRows = filterRowsMax
	}
	// Zero and negative values mean the constants of limits.go.
	for _, x := range []struct {
		option *int
		value  int
	}{{&o.ShadowedRows, shadowedMax},
		{&o.blockBytes, blockBytes},
		{&o.ceilingSlack, ceilingSlack},
		{&o.skipAfter, skipAfter}} {
		if *x.option <= 0 {
			*x.option = x.value
		}
	}
	if o.Table == nil {
		o.Table = func(schema.StorageID) tableinfo.Info {
			return tableinfo.Info{Exists: true, GC: tableinfo.GCDisabled}
		}
	}
	if o.Lister == nil {
		o.Lister = noLister{}
	}
	if o.OnFatal == nil {
		o.OnFatal = func(error) {}
	}
	if o.OnCorruption == nil {
		o.OnCorruption = func(database.CorruptionInfo) {}
	}
	if o.FreeSpace == nil {
		o.FreeSpace = func() (free, total int64) {
			// The file system of the data directory, which may be a volume of its own.
			u, err := o.FS.GetDiskUsage(o.Dir)
			if err != nil {
				return 0, 0 // unknown: the file system is in memory
			}
			return int64(u.AvailBytes), int64(u.TotalBytes)
		}
	}
	return o, nil
}

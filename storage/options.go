package storage

import (
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/ring"
	"cqld/schema"
)

// SyncMode is when a write counts as durable.
type SyncMode uint8

// The modes.
const (
	// SyncBatch: when it is on disk; writes that wait together share one fsync.
	SyncBatch SyncMode = iota
	// SyncPeriodic: at once; an fsync follows every SyncPeriod. A crash of the machine loses what
	// came since; one of the process nearly nothing.
	SyncPeriodic
	// SyncNone: at once, and nobody calls fsync. For tests, and for the simulation that must find this.
	SyncNone
)

// GCMode is when tombstones and expired data older than gc_grace may be purged: the table option
// tombstone_gc.
type GCMode uint8

// The modes.
const (
	// GCRepair: only what a repair has brought to all replicas, as TableInfo.RepairedBefore says.
	GCRepair GCMode = iota
	// GCTimeout: after gc_grace, repaired or not.
	GCTimeout
	// GCImmediate: at once.
	GCImmediate
	// GCDisabled: never.
	GCDisabled
)

// TableInfo is what the engine must know of a table.
type TableInfo struct {
	Name           string // keyspace and table, in logs and errors; empty when it is not known
	Exists         bool
	GCGraceSeconds int64
	GC             GCMode
	// RepairedBefore is until when (seconds) all replicas of the token are known to have had every
	// write; for GCRepair. Nil: it was never repaired.
	RepairedBefore func(ring.Token) int64
	// AlwaysSync: a durable write of this table waits for its fsync in mode SyncPeriodic too. For
	// promises that a crash must not take back: Paxos state, hints, the batchlog.
	AlwaysSync bool
}

// name is the table's name, or else its number.
func (t *TableInfo) name(id schema.StorageID) string {
	if t.Name != "" {
		return t.Name
	}
	return "number " + strconv.FormatUint(uint64(id), 10)
}

// nameOf is a table's name, or else its number.
func (e *Engine) nameOf(id schema.StorageID) string {
	info := e.opts.Table(id)
	return info.name(id)
}

// gcBefore is the time (seconds) before which tombstones of the token are purged.
func (t *TableInfo) gcBefore(token ring.Token, now int64) int64 {
	const never = -1 << 62
	switch t.GC {
	case GCTimeout:
		return now - t.GCGraceSeconds
	case GCImmediate:
		return now
	case GCRepair:
		if t.RepairedBefore != nil {
			return min(now-t.GCGraceSeconds, t.RepairedBefore(token))
		}
	}
	return never
}

// CorruptionInfo says that corrupt data was found: the keys from Start to End may be missing here
// and must come from another replica.
type CorruptionInfo struct {
	Path       string
	Start, End []byte // engine keys
	Err        error
}

// Options are what an Engine is made with. Zero values mean the defaults of limits.go.
type Options struct {
	Dir    string
	FS     vfs.FS // the real disk when nil
	Clock  env.Clock
	Logger *slog.Logger

	Sync       SyncMode
	SyncPeriod time.Duration

	CacheBytes    int64
	MemTableBytes int64
	PageBytes     int

	// Table says what is to be known of a table; it is called often and must be quick. Nil: every
	// table exists and nothing is purged.
	Table func(schema.StorageID) TableInfo

	// Maintainers keep entries that are derived from rows (Maintainer). Each belongs to this engine alone.
	Maintainers []Maintainer
	// Lister answers Engine.Partitions, usually by the entries of one of the maintainers. Nil means that the engine keeps the
	// partition keys of no table in their order.
	Lister PartitionLister

	// OnFatal is told, once, that the engine cannot go on: the log or the MANIFEST could not be
	// written. Nothing is acknowledged from then on; the node must stop. It is called with Pebble's
	// locks held, and must not call the Engine.
	OnFatal func(error)
	// OnCorruption is told of corrupt data as it is found. It must not call the Engine.
	OnCorruption func(CorruptionInfo)

	// Guard keeps a panic in the callback of a write from the committer that calls it; nil means the panic goes on.
	Guard *guard.Guard

	// FreeSpace is the free and total number of bytes of the disk. Nil: the file system is asked.
	FreeSpace func() (free, total int64)
	// BallastBytes is the size of the file that is given up when the disk is full. Zero: the default
	// on the real disk and none elsewhere; negative: none.
	BallastBytes int64

	// Inline makes an engine without goroutines of its own, for the simulation: Apply commits before
	// it returns, the sweeper takes a step when Sweep is called, and an ingestion waits for Pebble's flushes.
	Inline bool

	// noLatch removes a safeguard: its test must then find the lost writes.
	noLatch bool
}

// withDefaults is o with everything set, or an error.
func (o Options) withDefaults() (Options, error) {
	if o.Clock == nil || o.Dir == "" {
		return o, errors.New("storage: Options need a Clock and a Dir")
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.BallastBytes == 0 && o.FS == vfs.Default {
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
	if o.PageBytes <= 0 {
		o.PageBytes = pageBytesMax
	}
	if o.Table == nil {
		o.Table = func(schema.StorageID) TableInfo { return TableInfo{Exists: true, GC: GCDisabled} }
	}
	if o.Lister == nil {
		o.Lister = noLister{}
	}
	if o.OnFatal == nil {
		o.OnFatal = func(error) {}
	}
	if o.OnCorruption == nil {
		o.OnCorruption = func(CorruptionInfo) {}
	}
	if o.FreeSpace == nil {
		o.FreeSpace = func() (free, total int64) {
			u, err := o.FS.GetDiskUsage(o.Dir)
			if err != nil {
				return 0, 0 // unknown: a file system in memory
			}
			return int64(u.AvailBytes), int64(u.TotalBytes)
		}
	}
	return o, nil
}

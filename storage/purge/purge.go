// Package purge removes data that Pebble cannot remove: rows that a deletion shadows, and tombstones and expired cells
// that no replica needs.
//
// Pebble never purges tombstones that its merger merged. The purger therefore reads each partition, decides what is
// dead, acquires the write latch of the partition, reads it again, and overwrites or deletes:
//
//	pass over everything ─┐
//	partitions that reads ├─ find dead rows ─ write latch ─ read again ─ Set, Delete or DeleteRange
//	and commits reported ─┘
//
// It purges the rows of a partition first, and the range tombstones and the header last: a tombstone may be removed
// only when no row is left that it shadows. A concurrent write could add such a row, so a partition that was written
// to during its sweep keeps its tombstones until the next one (watch).
//
// Deletions that are younger than gc_grace or not yet repaired (tableinfo.Info.GCBefore) are not purged: a replica
// that missed the deletion would bring the data back.
package purge

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/backlog"
	"cqld/storage/bounds"
	"cqld/storage/database"
	"cqld/storage/latch"
	"cqld/storage/space"
	"cqld/storage/tableinfo"
)

// Maintainers are notified of keys that the purger overwrites or removes.
type Maintainers interface {
	// Maintained reports whether a table has entries that are derived from its rows. Its rows must then be read
	// before they are removed.
	Maintained(schema.StorageID) bool
	// Purge adds to a batch the changes of entries that follow from a new value of a key; a nil after removes the
	// key. The write latch of its partition is held.
	Purge(b *pebble.Batch, key, before, after []byte) error
	// Emptied removes the entries of a partition that has no stored key. No latch is held.
	Emptied(schema.StorageID, row.PartitionKey) error
}

// Options are the dependencies of the purger on its engine. All fields are required, except those with a default.
type Options struct {
	DB *database.DB
	// Latches serialize the purger with commits, per partition. They are shared with the engine.
	Latches *latch.Latches
	// Bounds are upper bounds of the timestamps of a partition's rows.
	Bounds *bounds.Bounds
	// Disk reports a full disk. Nothing is purged then, because a deletion needs space before it frees any.
	Disk   *space.Watcher
	Clock  env.Clock
	Logger *slog.Logger
	// Table returns how the tombstones of a table are purged. It is called once for each partition.
	Table       func(schema.StorageID) tableinfo.Info
	Maintainers Maintainers
	Dead        *backlog.Dead   // partitions that reads and commits reported
	PositionKey []byte          // under which the position of the pass is saved
	Stop        <-chan struct{} // closed when the engine is being closed
	// Inline means that the purger runs only in calls of Sweep, which then purge Dead, too.
	Inline bool

	// These fields replace constants in tests, so that few rows suffice. Zero means the constant.
	PurgeRangeMin, RunMin, SuspectBytes int
}

// Counts count events since the engine was opened.
type Counts struct {
	Swept  atomic.Int64 // entries scanned
	Purged atomic.Int64 // entries overwritten or removed
}

// Purger purges the data of one engine. Its methods are safe for concurrent use; purges are serialized.
type Purger struct {
	opts    Options
	Counts  Counts
	watched watch

	mu sync.Mutex // held during each step of a purge
	// Sweeps of the pass and of reported spans alternate; now is the one that has a partition in progress.
	pass backlog.Sweep  // over everything
	now  *backlog.Sweep // to which part belongs; nil if part is not active
	// part is reused from partition to partition, so that a sweep allocates little.
	part sweptPartition
	// unsaved counts the steps of the pass since its position was saved.
	unsaved int
	ended   int64 // when the last pass ended (seconds)
	dead    *backlog.Dead
}

// New returns a purger. Load must be called before it runs.
func New(o Options) *Purger {
	// Tests need few rows only if the bounds are small; production code leaves the options at zero.
	for _, x := range []struct {
		option *int
		value  int
	}{{&o.PurgeRangeMin, purgeRangeMin}, {&o.RunMin, sweepBatch}, {&o.SuspectBytes, suspectBytes}} {
		if *x.option <= 0 {
			*x.option = x.value
		}
	}
	return &Purger{opts: o, dead: o.Dead}
}

// Note detects a commit to the partition being purged. It is called with the tokens of each commit, while the commit
// holds the read latches of its partitions.
func (s *Purger) Note(tokens []ring.Token) { s.watched.note(tokens) }

// NoteAll is Note for an ingestion, which may change any partition.
func (s *Purger) NoteAll() { s.watched.noteAll() }

// Exclude runs f while no purge runs. The purger forgets the partition that it was purging, because f removes keys
// other than by writes.
func (s *Purger) Exclude(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// forget is called before f, so that no state of the purger refers to removed keys even if f fails halfway.
	s.forget()
	return f()
}

// watch detects commits to one partition. beginPartition sets all three under the write latch of the partition, and
// commits read them under the read latch. So a commit that is not noted is in the database before beginPartition
// returns, and the iterator of the sweep sees it.
type watch struct {
	active atomic.Bool
	token  atomic.Int64
	dirty  atomic.Bool
}

// note is called with the partitions of a commit, under their latches.
func (w *watch) note(tokens []ring.Token) {
	// Two tables may have a partition with this token. A commit to the other one marks the partition as dirty
	// needlessly, which only postpones the removal of its tombstones.
	if w.active.Load() && slices.Contains(tokens, ring.Token(w.token.Load())) {
		w.dirty.Store(true)
	}
}

// noteAll is called when many partitions may have changed, under all latches.
func (w *watch) noteAll() {
	if w.active.Load() {
		w.dirty.Store(true)
	}
}

// stopping reports whether the engine is being closed.
func (s *Purger) stopping() bool {
	select {
	case <-s.opts.Stop:
		return true
	default:
		return false
	}
}

// pause waits. It returns false if the engine is being closed.
func (s *Purger) pause(d time.Duration) bool { return env.Pause(s.opts.Clock, d, nil, s.opts.Stop) }

// pauseOr is pause, but no longer than until wake has a value.
func (s *Purger) pauseOr(d time.Duration, wake <-chan struct{}) bool {
	return env.Pause(s.opts.Clock, d, wake, s.opts.Stop)
}

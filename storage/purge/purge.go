// Package purge removes data that Pebble cannot remove: rows that a deletion shadows, and tombstones and expired cells
// that no replica needs.
//
// Pebble never purges what its merger merged. The purger therefore reads each partition, decides what is dead, acquires
// the write latch of the partition, reads it again, and overwrites or deletes:
//
//	pass over everything ─┐
//	partitions that reads ├─ find dead rows ─ write latch ─ read again ─ Set, Delete or DeleteRange
//	and commits reported ─┘
//
// It purges the rows of a partition first, and the range tombstones and the header last: a tombstone may be removed
// only when nothing is left that it shadows. A concurrent write could add such a row, so a partition that was written
// to during its sweep keeps its tombstones until the next one (watch).
//
// Nothing is purged whose deletion is younger than gc_grace or not yet repaired (tableinfo.Info.GCBefore): a replica
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
	// Purge adds to a batch what follows from another value of a key, nil for none. The write latch of its partition is
	// held.
	Purge(b *pebble.Batch, key, before, after []byte) error
	// Emptied removes what is derived from a partition if nothing is stored of it. No latch is held.
	Emptied(schema.StorageID, row.PartitionKey) error
}

// Options are what the purger uses of its engine. All fields are required, except those with a default.
type Options struct {
	DB *database.DB
	// Serializes the purger with commits, per partition. Shared with the engine.
	Latches *latch.Latches
	// The newest timestamps that rows of a partition can have.
	Bounds *bounds.Bounds
	// While the disk is full nothing is purged: a deletion needs space before it frees any.
	Disk   *space.Watcher
	Clock  env.Clock
	Logger *slog.Logger
	// How the tombstones of a table are purged. It is called once a partition.
	Table       func(schema.StorageID) tableinfo.Info
	Maintainers Maintainers
	Dead        *backlog.Dead   // partitions that reads and commits reported
	PositionKey []byte          // under which the position of the pass is saved
	Stop        <-chan struct{} // closed when the engine is being closed
	// Inline means that nothing but Sweep runs the purger: Sweep then purges Dead, too.
	Inline bool

	// These replace constants, in tests that need few rows. Zero means the constant.
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
	// The spans that are swept in turns; only one of them has a partition in progress.
	pass backlog.Sweep  // over everything
	now  *backlog.Sweep // to which part belongs; nil if part is not active
	// Reused from partition to partition, so that a sweep allocates little.
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
	// Before f, so that no state of the purger refers to removed keys even if f fails halfway.
	s.forget()
	return f()
}

// watch detects commits to one partition. beginPartition sets all three under the write latch of the
// partition, and commits read them under the read latch. So a commit that is not noted is in the database before
// beginPartition returns, where the iterator of the sweep sees it.
type watch struct {
	active atomic.Bool
	token  atomic.Int64
	dirty  atomic.Bool
}

// note is called with the partitions of a commit, under their latches.
func (w *watch) note(tokens []ring.Token) {
	// Two tables may have a partition with this token. A commit to the other one makes the partition dirty without
	// need, which only postpones the removal of its tombstones.
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

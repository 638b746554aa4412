package storage

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"cqld/storage/rowcache"
)

// counters count events since the engine was opened.
type counters struct {
	writes, refused, syncs, folds atomic.Int64
}

// Metrics contains statistics since the engine was opened.
type Metrics struct {
	Reads             int64 // read commands
	Writes            int64 // mutations
	Refused           int64 // writes refused because the disk is full or too many bytes wait
	Syncs             int64 // commits that waited for the disk
	Folds             int64 // hot rows collapsed
	TombstoneWarnings int64 // reads that scanned many tombstones
	Swept             int64 // entries scanned by the purger
	Purged            int64 // entries overwritten or removed by the purger
	Looked            int64 // entries scanned by reads
	Seeks             int64 // searches for a key in the database by reads
	Canceled          int64 // reads that ended early because their result was no longer wanted
	Stalls            int64 // times that Pebble stalled writers
	// Pauses counts the commits that took at least pause.Min without the fsync of the log; PausesByCause divides them
	// by cause (pause.Cause). SlowSyncs counts the commits that waited at least pause.Min for the fsync. All writes
	// wait during a pause.
	Pauses, SlowSyncs         int64
	LongestPause, LongestSync time.Duration
	PausesByCause             map[string]int64
	Corruptions               int64
	DiskFull                  bool
	Rows                      rowcache.Stats  // of the cache of rows
	Pebble                    *pebble.Metrics // nil after the engine has failed
}

// Metrics returns the current statistics.
func (e *Engine) Metrics() Metrics {
	c, r := &e.counters, &e.reads.Counts
	m := Metrics{
		Reads: r.Reads.Load(), Writes: c.writes.Load(), Refused: c.refused.Load(), Syncs: c.syncs.Load(),
		Folds: c.folds.Load(), TombstoneWarnings: r.TombstoneWarnings.Load(),
		Looked: r.Looked.Load(), Seeks: r.Seeks.Load(), Canceled: r.Canceled.Load(),
		Swept: e.purger.Counts.Swept.Load(), Purged: e.purger.Counts.Purged.Load(), Stalls: e.db.Stalls(),
		Pauses: e.commits.pauses.Count(), LongestPause: e.commits.pauses.Longest(),
		PausesByCause: e.commits.pauses.ByCause(),
		SlowSyncs:     e.commits.slowSyncs.Count(), LongestSync: e.commits.slowSyncs.Longest(),
		Corruptions: int64(len(e.db.Corruptions())), DiskFull: e.disk.Full(),
		Rows: e.rows.Stats(),
	}
	// Metrics must not block on the locks of a failed database.
	if e.db.Err() == nil { // otherwise its locks may be held permanently
		m.Pebble = e.db.Metrics()
	}
	return m
}

// DiskFull reports whether writes are refused because the disk is nearly full.
func (e *Engine) DiskFull() bool { return e.disk.Full() }

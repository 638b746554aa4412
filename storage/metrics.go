package storage

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// counters count events since the engine was opened.
type counters struct {
	reads, writes, refused, syncs, folds, tombstoneWarnings, swept, purged atomic.Int64
	looked, canceled, seeks                                                atomic.Int64
}

// ReadCounts are what a read command examined.
type ReadCounts struct {
	Rows       int64 // live rows, also those that its filter omitted
	Tombstones int64
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
	// Pauses counts the commits that took pause.Min without the fsync of the log, PausesByCause by what they waited for
	// (pause.Cause), and SlowSyncs those that waited so long for the fsync. All writes wait meanwhile.
	Pauses, SlowSyncs         int64
	LongestPause, LongestSync time.Duration
	PausesByCause             map[string]int64
	Corruptions               int64
	DiskFull                  bool
	Pebble                    *pebble.Metrics // nil after the engine has failed
}

// countSeeks counts the seeks of a read's iterator, which ends.
func (e *Engine) countSeeks(iter *pebble.Iterator) {
	stats := iter.Stats()
	e.counters.seeks.Add(int64(stats.ForwardSeekCount[pebble.InterfaceCall] +
		stats.ReverseSeekCount[pebble.InterfaceCall]))
}

// Metrics returns the current statistics.
func (e *Engine) Metrics() Metrics {
	c := &e.counters
	m := Metrics{
		Reads: c.reads.Load(), Writes: c.writes.Load(), Refused: c.refused.Load(), Syncs: c.syncs.Load(),
		Folds: c.folds.Load(), TombstoneWarnings: c.tombstoneWarnings.Load(),
		Looked: c.looked.Load(), Seeks: c.seeks.Load(), Canceled: c.canceled.Load(),
		Swept: c.swept.Load(), Purged: c.purged.Load(), Stalls: e.stalls.Load(),
		Pauses: e.pauses.Count(), LongestPause: e.pauses.Longest(), PausesByCause: e.pauses.ByCause(),
		SlowSyncs: e.slowSyncs.Count(), LongestSync: e.slowSyncs.Longest(),
		Corruptions: int64(len(e.Corruptions())), DiskFull: e.disk.Full(),
	}
	if e.failedErr() == nil { // otherwise its locks may be held permanently
		m.Pebble = e.db.Metrics()
	}
	return m
}

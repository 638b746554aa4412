package storage

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// counters are what the engine counts since it was opened.
type counters struct {
	reads, writes, refused, syncs, folds, tombstoneWarnings, swept, purged atomic.Int64
	looked, canceled                                                       atomic.Int64
}

// Metrics are the engine's figures since it was opened.
type Metrics struct {
	Reads             int64 // commands
	Writes            int64 // mutations
	Refused           int64 // writes refused for lack of space or too much waiting
	Syncs             int64 // commits that waited for the disk
	Folds             int64 // hot rows folded
	TombstoneWarnings int64 // reads that met many tombstones
	Swept             int64 // entries the sweeper looked at
	Purged            int64 // entries it overwrote or removed
	Looked            int64 // entries that reads looked at
	Canceled          int64 // reads that ended early because their result was not wanted any more
	Stalls            int64 // times Pebble made writers wait
	Corruptions       int64
	DiskFull          bool
	Pebble            *pebble.Metrics // nil once the engine has failed
}

// Metrics are the figures at this moment.
func (e *Engine) Metrics() Metrics {
	c := &e.counters
	m := Metrics{
		Reads: c.reads.Load(), Writes: c.writes.Load(), Refused: c.refused.Load(), Syncs: c.syncs.Load(),
		Folds: c.folds.Load(), TombstoneWarnings: c.tombstoneWarnings.Load(),
		Looked: c.looked.Load(), Canceled: c.canceled.Load(),
		Swept: c.swept.Load(), Purged: c.purged.Load(), Stalls: e.stalls.Load(),
		Corruptions: int64(len(e.Corruptions())), DiskFull: e.disk.full.Load(),
	}
	if e.failedErr() == nil { // else its locks may be held for ever
		m.Pebble = e.db.Metrics()
	}
	return m
}

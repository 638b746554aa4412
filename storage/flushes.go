package storage

import "runtime"

// awaitFlushes waits, in an engine with Options.Inline, until no flush is in progress. An ingestion that overlaps a
// memtable in the flush queue makes Pebble switch to a new memtable and close the log of the present one, which syncs what
// was written without a sync; one that comes after the flush does not. What survives a power cut must not depend on how
// far a goroutine of Pebble has come. When a flush fails, Pebble repeats it for as long as the disk fails, and
// awaitFlushes returns.
//
// It polls: Pebble reports the end of a flush before it counts the flush as ended, and releases its lock in between.
func (e *Engine) awaitFlushes() {
	if !e.opts.Inline {
		return
	}
	failures := e.flushFailures.Load()
	for e.db.Metrics().Flush.NumInProgress > 0 && e.flushFailures.Load() == failures {
		select {
		case <-e.broken:
			return
		default:
			runtime.Gosched()
		}
	}
}

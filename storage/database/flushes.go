package database

import "runtime"

// AwaitFlushes waits, in a database with Options.Inline, until no flush is in progress. An ingestion that overlaps a
// memtable in the flush queue makes Pebble switch to a new memtable and close the log of the current one, which syncs
// unsynced writes; an ingestion after the flush does not. The data that survive a power cut must not depend on the
// progress of a goroutine of Pebble. If a flush fails, Pebble retries it for as long as the disk fails, and
// AwaitFlushes returns.
//
// It polls, because Pebble reports the end of a flush before it counts the flush as ended, and releases its lock in
// between.
func (db *DB) AwaitFlushes() {
	if !db.opts.Inline {
		return
	}
	failures := db.flushFailures.Load()
	for db.Metrics().Flush.NumInProgress > 0 && db.flushFailures.Load() == failures {
		select {
		case <-db.broken:
			return
		default:
			runtime.Gosched()
		}
	}
}

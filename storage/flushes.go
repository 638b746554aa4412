package storage

import "sync/atomic"

// flushes is what an engine with Options.Inline knows of the flushes that Pebble runs in goroutines of its own.
type flushes struct {
	ended    chan struct{} // gets a value at the end of a flush; holds one
	failures atomic.Int64  // of background work since the engine was opened
}

// end is the event of the end of a flush. Pebble calls it with its lock held.
func (f *flushes) end() {
	select {
	case f.ended <- struct{}{}:
	default: // the last end has not been received yet
	}
}

// awaitFlushes waits, in an engine with Options.Inline, until no flush is in progress. An ingestion that overlaps a
// memtable in the flush queue makes Pebble switch to a new memtable and close the log of the present one, which syncs what
// was written without a sync; one that comes after the flush does not. What survives a power cut must not depend on how
// far a goroutine of Pebble has come. When a flush fails, Pebble repeats it for as long as the disk fails, and
// awaitFlushes returns.
func (e *Engine) awaitFlushes() {
	if !e.opts.Inline {
		return
	}
	failures := e.flushes.failures.Load()
	for e.db.Metrics().Flush.NumInProgress > 0 && e.flushes.failures.Load() == failures {
		select {
		case <-e.flushes.ended:
		case <-e.broken:
			return
		}
	}
}

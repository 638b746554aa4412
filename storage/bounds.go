package storage

import (
	"github.com/cockroachdb/pebble/v2"

	"cqld/schema"
	"cqld/storage/failure"
)

// ownBound is the prefix of the engine's own keys that store ceilings of timestamps.
const ownBound = 'b'

// loadBounds loads the ceilings of timestamps when the engine is opened. It does not sync: the next start repeats a
// write that a crash has lost.
func (e *core) loadBounds() error {
	e.bounds.Prefix, e.bounds.Slack = ownKey(ownBound), int64(e.opts.ceilingSlack)
	return failure.Of(e.db.Overwrite(func(b *pebble.Batch) error { return e.bounds.Load(e.db.DB, b) }))
}

// syncCeiling writes the ceiling for the noted rows of a table, and waits until it is on disk.
func (e *core) syncCeiling(id schema.StorageID) error {
	b := e.db.NewBatch()
	defer b.Close()
	// Usually no ceiling must be raised, because ceilings are ahead of the rows by ceilingSlack.
	raised, err := e.bounds.Raise(b, id)
	if err != nil || len(raised) == 0 {
		return err
	}
	if err := e.db.Apply(b, pebble.Sync); err != nil {
		return err
	}
	// Committed is called only after the write is durable: a commit that sees the new ceiling does not write it
	// again.
	raised.Committed()
	return e.db.Err()
}

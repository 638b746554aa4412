package database

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"cqld/storage/failure"
	"cqld/storage/logarchive"
)

// These methods replace Pebble's, so that everything that is written has a stamp for the archive of the log.

// Apply is pebble.DB.Apply. It adds a stamp to a batch that is not empty.
func (db *DB) Apply(b *pebble.Batch, o *pebble.WriteOptions) error {
	return db.stamped(b, o, db.DB.Apply)
}

// ApplyNoSyncWait is pebble.DB.ApplyNoSyncWait. It adds a stamp to a batch that is not empty.
func (db *DB) ApplyNoSyncWait(b *pebble.Batch, o *pebble.WriteOptions) error {
	return db.stamped(b, o, db.DB.ApplyNoSyncWait)
}

// stamped calls apply with a stamped batch.
func (db *DB) stamped(b *pebble.Batch, o *pebble.WriteOptions,
	apply func(*pebble.Batch, *pebble.WriteOptions) error,
) error {
	// An empty batch is not written to the log.
	if db.opts.Archive == nil || b.Empty() {
		return apply(b, o)
	}
	// The stamp is drawn as late as possible, so that it is later than the stamps of all batches whose effects this
	// one has read.
	clock := db.opts.Archive.Clock()
	stamp := clock.Begin()
	// When apply returns, the batch is in the log's queue, in the order of the log: a sync that begins later includes
	// it.
	defer clock.End(stamp)
	logarchive.Stamp(b, stamp)
	return apply(b, o)
}

// Set is pebble.DB.Set, with a stamp.
func (db *DB) Set(key, value []byte, o *pebble.WriteOptions) error {
	return db.writeOne(o, func(b *pebble.Batch) error { return b.Set(key, value, nil) })
}

// Delete is pebble.DB.Delete, with a stamp.
func (db *DB) Delete(key []byte, o *pebble.WriteOptions) error {
	return db.writeOne(o, func(b *pebble.Batch) error { return b.Delete(key, nil) })
}

// writeOne commits a batch with one entry.
func (db *DB) writeOne(o *pebble.WriteOptions, fill func(*pebble.Batch) error) error {
	// Pebble's own methods also use a batch.
	b := db.NewBatch()
	if err := errors.Join(fill(b), db.Apply(b, o)); err != nil {
		return err
	}
	return b.Close()
}

// ReadLog reads the log from a position on (logarchive.Keeper.Read). It returns logarchive.ErrOff without an archive.
func (db *DB) ReadLog(after logarchive.Position, maxBytes int) (logarchive.Segment, error) {
	if err := db.Err(); err != nil {
		return logarchive.Segment{}, err
	}
	if db.opts.Archive == nil {
		return logarchive.Segment{}, logarchive.ErrOff
	}
	s, err := db.opts.Archive.Read(after, maxBytes, func(stamp int64) (err error) {
		defer db.Recover(&err)
		// A synced record makes Pebble sync the log before it. It changes no data.
		b := db.NewBatch()
		logarchive.Stamp(b, stamp)
		return errors.Join(db.DB.Apply(b, pebble.Sync), b.Close())
	})
	if failed := db.Err(); failed != nil {
		return logarchive.Segment{}, failed // what seemed to be on disk may not be
	}
	return s, failure.Of(err)
}

package database

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/logarchive"
	"cqld/storage/rowcache"
)

// These methods replace Pebble's, so that everything that is written has a stamp for the archive of the log, and leaves
// no older entry in the cache of rows.

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
	w := uncache(db.opts.Rows, b)
	defer w.End()
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

// uncache removes the keys of a batch from the cache of rows. The caller ends the write when the batch is visible, or
// has failed.
func uncache(rows *rowcache.Cache, b *pebble.Batch) *rowcache.Write {
	w := rows.Begin()
	if w == nil {
		return nil
	}
	for r := b.Reader(); ; {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			w.All()
		}
		if !ok || err != nil {
			return w
		}
		switch kind {
		case pebble.InternalKeyKindMerge, pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete:
			w.Key(key)
		case pebble.InternalKeyKindRangeDelete:
			w.Range(key, value)
		case pebble.InternalKeyKindLogData:
		default:
			w.All() // an operation that this package does not know may change anything
		}
	}
}

// Ingest is pebble.DB.Ingest of files with rows of a table; zero means that they may be of several tables.
func (db *DB) Ingest(ctx context.Context, id schema.StorageID, paths []string) error {
	w := db.opts.Rows.Begin()
	defer w.End()
	if id == 0 {
		w.All()
	} else {
		w.Table(id)
	}
	return db.DB.Ingest(ctx, paths)
}

// Excise is pebble.DB.Excise.
func (db *DB) Excise(ctx context.Context, span pebble.KeyRange) error {
	w := db.opts.Rows.Begin()
	defer w.End()
	w.Range(span.Start, span.End)
	return db.DB.Excise(ctx, span)
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

// logFileBytes is the size of the parts in which the rows of a file are added to the log. A part is in memory twice.
const logFileBytes = 256 << 10

// LogFile adds the rows of an sstable, which contains at least one and only merged entries, to the log, for the
// archive: they change no data. They are on disk when LogFile returns.
func (db *DB) LogFile(path string) (err error) {
	defer db.Recover(&err)
	r, err := db.openFile(path)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // read only
	iter, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	rows := db.NewBatch()
	defer func() { err = errors.Join(err, rows.Close()) }()
	for kv := iter.First(); kv != nil; kv = iter.Next() {
		value, _, err := kv.Value(nil)
		if err == nil && rows.Len() >= logFileBytes {
			err = db.logRows(rows, pebble.NoSync)
			rows.Reset()
		}
		if err == nil {
			err = rows.Merge(kv.K.UserKey, value, nil)
		}
		if err != nil {
			return err
		}
	}
	if err := iter.Error(); err != nil {
		return err
	}
	// The sync includes the parts before it.
	return db.logRows(rows, pebble.Sync)
}

// logRows adds rows to the log. Apply adds a stamp.
func (db *DB) logRows(rows *pebble.Batch, o *pebble.WriteOptions) error {
	b := db.NewBatch()
	logarchive.AddRows(b, rows)
	return errors.Join(db.Apply(b, o), db.Err(), b.Close())
}

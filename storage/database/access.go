package database

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
)

// Overwrite commits Sets and Deletes without waiting for the disk: the entries that they replace precede them in the
// log, so a crash that loses the overwrite leaves those entries. The caller holds the write latch of their partition.
func (db *DB) Overwrite(fill func(*pebble.Batch) error) (err error) {
	invariant.Check(db.opened.Load(), "database: an overwrite before the database is open")
	defer db.Recover(&err)
	batch := db.NewBatch()
	if err := fill(batch); err != nil {
		return errors.Join(err, batch.Close())
	}
	if err := db.Apply(batch, pebble.NoSync); err != nil {
		return err
	}
	// Apply may return without an error although Fatalf recorded a failure meanwhile.
	if err := db.Err(); err != nil {
		return err
	}
	return batch.Close()
}

// Scan calls f with every key that begins with prefix, which must not consist of 0xFF only.
func (db *DB) Scan(prefix []byte, f func(key, value []byte) error) error {
	// key and value are valid during the call of f only.
	iter, err := db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: rowkey.PrefixEnd(prefix)})
	if err != nil {
		return failure.Of(err)
	}
	for valid := iter.First(); valid; valid = iter.Next() {
		invariant.Check(!invariant.Enabled || bytes.HasPrefix(iter.Key(), prefix), "database: a scan left its prefix")
		value, err := iter.ValueAndErr()
		if err == nil {
			err = f(iter.Key(), value)
		}
		if err != nil {
			return errors.Join(err, iter.Close())
		}
	}
	return failure.Of(errors.Join(iter.Error(), iter.Close()))
}

// Empty reports whether there is no key between two bounds.
func (db *DB) Empty(lower, upper []byte) (bool, error) {
	// With reversed bounds, existing data would look empty.
	invariant.Check(bytes.Compare(lower, upper) < 0, "database: bounds [%x, %x) contain no key", lower, upper)
	iter, err := db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return false, err
	}
	valid := iter.First()
	return !valid, errors.Join(iter.Error(), iter.Close())
}

// LookUp calls f with the value of a key, or nil if there is none. Unlike pebble.DB.Get, it uses the filters of all
// levels.
func (db *DB) LookUp(key []byte, f func(value []byte)) error {
	// The upper bound is the next possible key, so the iterator reads nothing else. The full slice expression protects
	// the memory of the caller after key.
	iter, err := db.NewIter(&pebble.IterOptions{LowerBound: key, UpperBound: append(key[:len(key):len(key)], 0),
		UseL6Filters: true})
	if err != nil {
		return err
	}
	var value []byte
	if iter.SeekPrefixGE(key) {
		value, err = iter.ValueAndErr()
	}
	if err = errors.Join(err, iter.Error()); err == nil {
		f(value)
	}
	return errors.Join(err, iter.Close())
}

// Value returns a copy of the value of a key, or nil.
func (db *DB) Value(key []byte) ([]byte, error) {
	// The value belongs to Pebble until closer is closed, hence the copy.
	value, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, failure.Of(err)
	}
	value = append([]byte{}, value...) // not nil, even if the value is empty
	return value, failure.Of(closer.Close())
}

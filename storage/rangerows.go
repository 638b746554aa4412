package storage

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
)

// Some tables contain rows that belong to different keyspaces, and hence to different replicas: a range of tokens of
// such a table is not dropped as a whole, but row by row.

// dropRowsBatch is the number of rows that DropRows removes in one batch.
const dropRowsBatch = 512

// HasRows reports whether a range of tokens, which may wrap, has rows whose clusterings are selected by of.
func (e *Engine) HasRows(id schema.StorageID, tokens ring.Range, of func(clustering []byte) bool) (found bool,
	err error) {
	err = e.removals.scanRows(id, tokens, nil, of, func(_, _ []byte) bool {
		// One row is enough.
		found = true
		return false
	})
	return found, err
}

// DropRows removes the rows of a range of tokens, which may wrap, whose clusterings are selected by of, whatever
// their timestamps. The removal is on disk when DropRows returns. Rows of these clusterings must not be written
// meanwhile.
func (e *Engine) DropRows(id schema.StorageID, tokens ring.Range, of func(clustering []byte) bool) error {
	if err := e.Drain(); err != nil {
		return err
	}
	var after []byte
	for {
		var keys, values [][]byte
		err := e.removals.scanRows(id, tokens, after, of, func(key, value []byte) bool {
			// Keys and values are cloned, because the iterator is closed before the batch is built.
			keys, values = append(keys, bytes.Clone(key)), append(values, bytes.Clone(value))
			return len(keys) < dropRowsBatch
		})
		if err != nil || len(keys) == 0 {
			return err
		}
		invariant.Check(bytes.Compare(after, keys[0]) < 0, "storage: a row is dropped twice")
		if err := e.removals.dropKeys(id, keys, values); err != nil {
			return err
		}
		// Batches are bounded, so that commits wait only briefly for the latches.
		after = keys[len(keys)-1]
	}
}

// scanRows calls f with the key and value of each row of a range that has a key greater than after, nil for all, and a
// clustering selected by of. It ends when f returns false.
func (rm *remover) scanRows(id schema.StorageID, tokens ring.Range, after []byte, of func(clustering []byte) bool,
	f func(key, value []byte) bool) error {
	if err := rm.db.Err(); err != nil {
		return err
	}
	for _, r := range tokens.Unwrap() {
		lower, upper, ok := rowkey.Bounds(nil, nil, id, r)
		if !ok || len(after) > 0 && bytes.Compare(after, upper) >= 0 {
			continue
		}
		if len(after) > 0 && bytes.Compare(after, lower) >= 0 {
			// The first key after it.
			lower = append(bytes.Clone(after), 0)
		}
		if more, err := rm.scanRowsBetween(lower, upper, of, f); err != nil || !more {
			return failure.Of(err)
		}
	}
	return nil
}

func (rm *remover) scanRowsBetween(lower, upper []byte, of func(clustering []byte) bool,
	f func(key, value []byte) bool) (more bool, err error) {
	iter, err := rm.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return false, err
	}
	more = true
	for valid := iter.First(); valid && more; valid = iter.Next() {
		_, _, suffix, err := rowkey.Parse(iter.Key())
		if err != nil {
			return false, errors.Join(err, iter.Close())
		}
		// Headers and range tombstones may concern rows of several keyspaces, so they stay.
		if row.EntryKind(suffix[0]) != row.KindRow || !of(suffix[1:]) {
			continue
		}
		value, err := iter.ValueAndErr()
		if err != nil {
			return false, errors.Join(err, iter.Close())
		}
		more = f(iter.Key(), value)
	}
	return more, errors.Join(iter.Error(), iter.Close())
}

// dropKeys removes rows, and reports them and the partitions that become empty to maintainers.
func (rm *remover) dropKeys(id schema.StorageID, keys, values [][]byte) error {
	invariant.Check(len(keys) == len(values), "storage: %d keys with %d values", len(keys), len(values))
	err := rm.removeLatched(func(b *pebble.Batch) error {
		// The entries are removed in the batch of the rows, so that no entry is left without a row.
		for i, key := range keys {
			if err := rm.derived.Purge(b, key, values[i], nil); err != nil {
				return err
			}
			if err := b.Delete(key, nil); err != nil {
				return err
			}
		}
		return nil
	})
	for _, key := range keys {
		if err != nil {
			return err
		}
		// Emptied is called after the removal, because a partition may have lost its last row.
		_, k, _, _ := rowkey.Parse(key) // it was parsed before
		err = rm.derived.Emptied(id, k)
	}
	return err
}

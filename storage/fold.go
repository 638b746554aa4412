package storage

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"cqld/storage/failure"
	"cqld/storage/latch"
	"cqld/storage/rowkey"
)

// foldHot collapses the hot rows that reads found.
func (e *core) foldHot() {
	for e.hot.Len() > 0 {
		// Several reads may collapse rows concurrently, each different keys.
		key, ok := e.hot.Take()
		if !ok {
			return
		}
		if err := e.fold([]byte(key)); err != nil {
			e.opts.Logger.Warn("collapsing a hot row failed", "err", err)
		}
		// The key is forgotten even after an error, because the next read finds it again.
		e.hot.Forget(key)
	}
}

// fold replaces the operands of one key by their merge.
func (e *core) fold(key []byte) error {
	_, k, _, err := rowkey.Parse(key)
	// A collapse only saves time, so it is skipped when writing is impossible or undesirable.
	if err != nil || e.db.Err() != nil || e.disk.Full() {
		return err
	}
	stripe := latch.StripeOf(k.Token)
	e.latches.Lock(stripe)
	defer e.latches.Unlock(stripe)
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: key, UpperBound: append(key[:len(key):len(key)], 0)})
	if err != nil {
		return failure.Of(err)
	}
	// The latch is held, so that no write comes between this read and the Set, which would hide it.
	if iter.SeekPrefixGE(key) {
		value, valueErr := iter.ValueAndErr()
		if err = valueErr; err == nil {
			err = e.db.Overwrite(func(b *pebble.Batch) error { return b.Set(key, value, nil) })
			e.counters.folds.Add(1)
		}
	}
	return failure.Of(errors.Join(err, iter.Error(), iter.Close()))
}

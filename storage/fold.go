package storage

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"cqld/storage/latch"
	"cqld/storage/rowkey"
)

// hotRows are keys whose merge had many operands: in the memtable, every reader pays for every operand. The read that
// found them collapses them when it has finished.
type hotRows struct {
	count atomic.Int32
	mu    sync.Mutex
	keys  map[string]bool // true while being collapsed
}

// add is called by the merger, in reads and in compactions. A compaction collapses rows itself. Collapsing its keys
// again costs little, and the two cannot be distinguished here.
func (h *hotRows) add(key []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, known := h.keys[string(key)]; known || len(h.keys) >= foldQueueMax {
		return
	}
	if h.keys == nil {
		h.keys = map[string]bool{}
	}
	h.keys[string(key)] = false
	h.count.Add(1)
}

// take returns a key that no goroutine is collapsing.
func (h *hotRows) take() (key string, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k, folding := range h.keys {
		if !folding {
			h.keys[k] = true
			h.count.Add(-1)
			return k, true
		}
	}
	return "", false
}

func (h *hotRows) forget(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.keys, key)
}

// foldHot collapses the hot rows that reads found.
func (e *Engine) foldHot() {
	for e.hot.count.Load() > 0 {
		key, ok := e.hot.take()
		if !ok {
			return
		}
		if err := e.fold([]byte(key)); err != nil {
			e.opts.Logger.Warn("storage: collapsing a hot row failed", "error", err)
		}
		e.hot.forget(key)
	}
}

// fold replaces the operands of one key by their merge.
func (e *Engine) fold(key []byte) error {
	_, k, _, err := rowkey.Parse(key)
	if err != nil || e.failedErr() != nil || e.disk.Full() {
		return err
	}
	stripe := latch.StripeOf(k.Token)
	e.latches.Lock(stripe)
	defer e.latches.Unlock(stripe)
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: key, UpperBound: append(key[:len(key):len(key)], 0)})
	if err != nil {
		return e.failure(err)
	}
	if iter.SeekPrefixGE(key) {
		value, valueErr := iter.ValueAndErr()
		if err = valueErr; err == nil {
			err = e.overwrite(func(b *pebble.Batch) error { return b.Set(key, value, nil) })
			e.counters.folds.Add(1)
		}
	}
	return e.failure(errors.Join(err, iter.Error(), iter.Close()))
}

// overwrite commits Sets and Deletes without waiting for the disk: the entries that they replace precede them in the
// log. The latch of their partition is held.
func (e *Engine) overwrite(fill func(*pebble.Batch) error) (err error) {
	defer e.commitPanic(&err)
	batch := e.db.NewBatch()
	if err := fill(batch); err != nil {
		return errors.Join(err, batch.Close())
	}
	if err := e.db.Apply(batch, pebble.NoSync); err != nil {
		return err
	}
	if err := e.failedErr(); err != nil {
		return err
	}
	return batch.Close()
}

package storage

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/estimate"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
)

// DropRange removes all applied data of a range of tokens, which may wrap, whatever the timestamps of its rows. The
// removal is on disk when DropRange returns. It is for ranges that this node no longer holds. The space is freed soon
// after.
func (e *Engine) DropRange(id schema.StorageID, tokens ring.Range) error {
	err := e.removals.dropRange(id, tokens)
	// A range that wraps is two spans of keys.
	for _, r := range tokens.Unwrap() {
		if lower, upper, ok := rowkey.Bounds(nil, nil, id, r); ok && err == nil {
			e.removals.reclaim(lower, upper)
		}
	}
	return err
}

func (rm *remover) dropRange(id schema.StorageID, tokens ring.Range) error {
	if err := rm.db.Err(); err != nil {
		return err
	}
	if err := rm.commits.drain(); err != nil {
		return err
	}
	return rm.removeLatched(func(b *pebble.Batch) error {
		for _, r := range tokens.Unwrap() {
			if lower, upper, ok := rowkey.Bounds(nil, nil, id, r); ok {
				if err := b.DeleteRange(lower, upper, nil); err != nil {
					return err
				}
			}
		}
		// An empty batch means that the range has no keys, and therefore no entries.
		if !b.Empty() {
			rm.derived.remove(b, id, tokens)
		}
		return nil
	})
}

// EmptyRange reports whether no data of a range of tokens, which may wrap, is stored.
func (e *Engine) EmptyRange(id schema.StorageID, tokens ring.Range) (bool, error) {
	if err := e.db.Err(); err != nil {
		return false, err
	}
	for _, r := range tokens.Unwrap() {
		lower, upper, ok := rowkey.Bounds(nil, nil, id, r)
		if !ok {
			continue
		}
		if empty, err := e.db.Empty(lower, upper); err != nil || !empty {
			return false, failure.Of(err)
		}
	}
	return true, nil
}

// Tables returns the tables with stored data, ascending.
func (e *Engine) Tables() (ids []schema.StorageID, err error) {
	if err := e.db.Err(); err != nil {
		return nil, err
	}
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: rowkey.AppendTable(nil, 1)})
	if err != nil {
		return nil, failure.Of(err)
	}
	// One seek for each table: rows are not read.
	for valid := iter.First(); valid; valid = iter.SeekGE(rowkey.AppendTableEnd(nil, ids[len(ids)-1])) {
		id := rowkey.TableOf(iter.Key())
		invariant.Check(len(ids) == 0 || ids[len(ids)-1] < id, "storage: tables are not in order")
		ids = append(ids, id)
	}
	return ids, failure.Of(errors.Join(iter.Error(), iter.Close()))
}

// SizeOf estimates the bytes on disk of a range of tokens, which may wrap, without memtables.
func (e *Engine) SizeOf(id schema.StorageID, tokens ring.Range) (bytes int64, err error) {
	if err := e.db.Err(); err != nil {
		return 0, err
	}
	for _, r := range tokens.Unwrap() {
		lower, upper, ok := rowkey.Bounds(nil, nil, id, r)
		if !ok {
			continue
		}
		n, err := e.db.EstimateDiskUsage(lower, upper)
		if err != nil {
			return 0, failure.Of(err)
		}
		bytes += int64(n)
	}
	return bytes, nil
}

// Drain waits until everything applied so far is committed, so that a following Export contains it.
func (e *Engine) Drain() error { return e.commits.drain() }

// EstimatePartitions estimates how many partitions a table has in the ranges that this node holds.
func (e *Engine) EstimatePartitions(id schema.StorageID, held []ring.Range) (p estimate.Partitions, err error) {
	if err := e.db.Err(); err != nil {
		return p, err
	}
	p, err = estimate.Of(e.db.DB, id, held)
	return p, failure.Of(err)
}

package storage

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/latch"
	"cqld/storage/rowkey"
)

// remover removes whole ranges of keys, whatever the timestamps of their rows, and frees their space.
type remover struct {
	*core
	commits   *committer
	reclaimer reclaimer
}

// Truncate removes all data of a table that was applied before, and frees its space soon after. A full disk does not
// refuse it.
func (e *Engine) Truncate(id schema.StorageID) error {
	return e.removals.truncate(id, false)
}

// truncate is Truncate, and the removal of a dropped table.
func (rm *remover) truncate(id schema.StorageID, drop bool) error {
	err := rm.removeTable(id, drop)
	// Space is reclaimed only after the removal is on disk, because compactions drop the covered keys.
	if err == nil {
		rm.reclaim(rowkey.AppendTable(nil, id), rowkey.AppendTableEnd(nil, id))
	}
	return err
}

func (rm *remover) removeTable(id schema.StorageID, drop bool) error {
	if err := rm.db.Err(); err != nil {
		return err
	}
	return rm.removeLatched(func(b *pebble.Batch) error {
		// Entries are removed in the batch of their rows, so that none is left without rows.
		rm.derived.remove(b, id, ring.FullRange())
		if drop {
			// The mark of a dropped table is removed as well, because its number is never used again.
			for _, m := range rm.derived.list {
				m.Drop(Derived{batch: b, space: m.space}, id)
			}
		}
		return b.DeleteRange(rowkey.AppendTable(nil, id), rowkey.AppendTableEnd(nil, id), nil)
	})
}

// removeLatched commits the removals that fill adds to a batch, under the write latches of all partitions: the purger
// must not apply a deletion that was removed, and no collapse may write back a row that it read before. It waits for
// the disk after it has released them, so that commits do not.
func (rm *remover) removeLatched(fill func(*pebble.Batch) error) (err error) {
	// Pebble may panic with its locks held.
	defer rm.db.Recover(&err)
	batch := rm.db.NewBatch()
	published, err := rm.publishLatched(batch, fill)
	invariant.Check(!published || !batch.Empty(), "storage: an empty removal waits for the disk")
	if published && err == nil {
		// The latches are released: commits do not wait for this fsync.
		err = batch.SyncWait()
	}
	if failed := rm.db.Err(); failed != nil {
		return failed
	}
	return failure.Of(errors.Join(err, batch.Close()))
}

// publishLatched makes the removals that fill adds to a batch visible. published means that the batch contains
// removals, so the caller must wait for the disk.
func (rm *remover) publishLatched(batch *pebble.Batch, fill func(*pebble.Batch) error) (published bool, err error) {
	// The purger is excluded before the latches are acquired, because it acquires its own lock first, too.
	err = rm.purger.Exclude(func() error {
		rm.latches.Lock(latch.AllStripes)
		defer rm.latches.Unlock(latch.AllStripes)
		if err := fill(batch); err != nil || batch.Empty() {
			return err
		}
		// published is set first, because the batch may be visible even if the next call fails.
		published = true
		return rm.db.ApplyNoSyncWait(batch, pebble.Sync)
	})
	return published, err
}

// DropTable removes a table forever. Later writes get *failure.UnknownTable, and so do reads that end later: they may
// have read a part of the table.
func (e *Engine) DropTable(id schema.StorageID) error {
	q := &e.commits.queue
	q.Lock()
	e.dropped.Add(id)
	q.Unlock()
	// Mutations that were queued before are committed before the truncation.
	if err := e.commits.drain(); err != nil {
		return err
	}
	return e.removals.truncate(id, true)
}

package storage

import (
	"bytes"
	"context"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/backlog"
	"cqld/storage/database"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
)

// CompactTable purges the dead data of a table, and compacts the rest into the lowest level. It works on parts of about
// compactPartBytes, in the order of their tokens, and calls progress, if it is not nil, after each. It stops when ctx
// ends.
func (e *Engine) CompactTable(ctx context.Context, id schema.StorageID, progress func(done, parts int)) error {
	size, err := e.TableSize(id)
	if err != nil {
		return err
	}
	// There is at least one part, even if the table is in memtables only.
	parts := int(min(1+size.Bytes/compactPartBytes, compactPartsMax))
	return e.compactTable(ctx, id, parts, progress)
}

func (e *Engine) compactTable(ctx context.Context, id schema.StorageID, parts int,
	progress func(done, parts int)) error {
	start := rowkey.AppendTable(nil, id)
	for i := 1; i <= parts; i++ {
		// The last part ends with the table.
		end := rowkey.AppendTableEnd(nil, id)
		if i < parts { // tokens are hashes, so equal ranges of them have about as many bytes
			end = rowkey.AppendToken(nil, id, ring.Token(uint64(i)*(math.MaxUint64/uint64(parts))^1<<63))
		}
		invariant.Check(bytes.Compare(start, end) < 0, "storage: part %d of %d of a compaction is empty", i, parts)
		if err := e.purger.Span(ctx, &backlog.Sweep{Position: start, End: end}); err != nil {
			return err
		}
		// The compaction follows the purge, so that it drops the removed keys.
		if err := e.db.Compact(ctx, start, end, true); err != nil {
			return failure.Of(err)
		}
		if progress != nil {
			progress(i, parts)
		}
		start = end
	}
	return nil
}

// Verify reads files and compares their checksums. Corrupt files are in Corruptions afterwards.
func (e *Engine) Verify(ctx context.Context, o database.Verification) (database.Verified, error) {
	return e.db.Verify(ctx, o)
}

// TableSize is the approximate size of a table on disk, without memtables.
type TableSize struct {
	Bytes    int64 // with its share of shared files
	Files    int   // files with entries of the table, possibly also of other tables
	MaxBytes int64 // of the largest of those files
	Levels   []int // files by level
}

// TableSize returns the size of a table.
func (e *Engine) TableSize(id schema.StorageID) (size TableSize, err error) {
	if err := e.db.Err(); err != nil {
		return size, err
	}
	start, end := rowkey.AppendTable(nil, id), rowkey.AppendTableEnd(nil, id)
	bytes, err := e.db.EstimateDiskUsage(start, end)
	if err != nil {
		return size, failure.Of(err)
	}
	size.Bytes = int64(bytes)
	levels, err := e.db.SSTables(pebble.WithKeyRangeFilter(start, end))
	if err != nil {
		return size, failure.Of(err)
	}
	// A file that belongs to several tables counts as a whole.
	for _, files := range levels {
		size.Levels = append(size.Levels, len(files))
		for _, f := range files {
			size.Files++
			size.MaxBytes = max(size.MaxBytes, int64(f.Size))
		}
	}
	return size, nil
}

// CheckpointTables is Checkpoint for these tables only. The copy may contain some of the rows of other tables.
func (e *Engine) CheckpointTables(dir string, ids []schema.StorageID) error {
	if err := e.db.Err(); err != nil {
		return err
	}
	// The node's own keys come first.
	spans := []pebble.CheckpointSpan{{Start: rowkey.AppendTable(nil, 0), End: rowkey.AppendTable(nil, 1)}}
	for _, id := range ids {
		span := pebble.CheckpointSpan{Start: rowkey.AppendTable(nil, id), End: rowkey.AppendTableEnd(nil, id)}
		spans = append(spans, span)
	}
	return e.db.Checkpoint(dir, pebble.WithRestrictToSpans(spans))
}

package storage

import (
	"context"

	"github.com/cockroachdb/pebble/v2"

	"cqld/schema"
	"cqld/storage/rowkey"
)

// CompactTable purges the dead data of a table, and compacts the rest into the lowest level. It stops when ctx ends.
func (e *Engine) CompactTable(ctx context.Context, id schema.StorageID) error {
	if err := e.failedErr(); err != nil {
		return err
	}
	if err := e.sweepTable(ctx, id); err != nil {
		return err
	}
	return e.failure(e.db.Compact(ctx, rowkey.AppendTable(nil, id), rowkey.AppendTableEnd(nil, id), true))
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
	if err := e.failedErr(); err != nil {
		return size, err
	}
	start, end := rowkey.AppendTable(nil, id), rowkey.AppendTableEnd(nil, id)
	bytes, err := e.db.EstimateDiskUsage(start, end)
	if err != nil {
		return size, e.failure(err)
	}
	size.Bytes = int64(bytes)
	levels, err := e.db.SSTables(pebble.WithKeyRangeFilter(start, end))
	if err != nil {
		return size, e.failure(err)
	}
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
	if err := e.failedErr(); err != nil {
		return err
	}
	// The node's own keys come first.
	spans := []pebble.CheckpointSpan{{Start: rowkey.AppendTable(nil, 0), End: rowkey.AppendTable(nil, 1)}}
	for _, id := range ids {
		span := pebble.CheckpointSpan{Start: rowkey.AppendTable(nil, id), End: rowkey.AppendTableEnd(nil, id)}
		spans = append(spans, span)
	}
	return e.checkpoint(dir, pebble.WithRestrictToSpans(spans))
}

package purge

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"cqld/row"
	"cqld/storage/backlog"
	"cqld/storage/bounds"
	"cqld/storage/latch"
	"cqld/storage/rowkey"
)

// removeCovered removes the rows of a deleted partition or range with one range deletion, without reading them, if
// according to package bounds no row of the partition is newer than the deletion. mu is held.
//
// The write latch of the partition makes the bound exact enough: a commit notes the timestamps of its rows before it
// acquires the read latch, so it is either part of the bound, or it follows the range deletion in Pebble. The deletion
// is read under the same latch, because a removal of the partition may have removed it since it was noted.
//
// Maintainers are notified of each row that is removed, so the rows of their tables must be read.
func (s *Purger) removeCovered(x backlog.Span) (removed bool, err error) {
	table, key, suffix, err := rowkey.Parse(x.Start)
	if err != nil {
		return false, err
	}
	// If rows must be read, or removal is impossible, the span is left to row-by-row purges. Err is nil unless the
	// database has failed.
	if s.opts.Maintainers.Maintained(table) || s.opts.Disk.Full() || s.opts.DB.Err() != nil {
		return false, s.opts.DB.Err()
	}
	// x.Start is a key within the partition. Without its suffix it is the prefix of all keys of the partition.
	prefix := x.Start[:len(x.Start)-len(suffix)]
	stripe := latch.StripeOf(key.Token)
	s.opts.Latches.Lock(stripe)
	defer s.opts.Latches.Unlock(stripe)
	// The iterator sees the header and the range tombstones only: their kinds precede the rows.
	rows := append(bytes.Clone(prefix), byte(row.KindRow))
	iter, err := s.opts.DB.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: rows})
	if err != nil {
		return false, err
	}
	deletion, err := bounds.Covering(iter, prefix, x.Start, x.End)
	if err = errors.Join(err, iter.Error(), iter.Close()); err != nil {
		return false, err
	}
	// The deletion itself stays; the pass removes it after gc_grace, once it is repaired.
	if !deletion.Present() || !s.opts.Bounds.Reached(table, key.Token, deletion.Timestamp) {
		return false, nil
	}
	return true, s.opts.DB.Overwrite(func(b *pebble.Batch) error { return b.DeleteRange(x.Start, x.End, nil) })
}

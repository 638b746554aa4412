package reading

import (
	"bytes"
	"errors"

	"cqld/row"
	"cqld/storage/failure"
)

// Newest returns the newest timestamp (µs), in the partition cmd.Key, of the rows in cmd.Slices (in any order), of all
// deletions that affect them, and with StaticCounts of the static row. Deletions that can be purged but have not been
// count as well, because they still delete. It returns row.NoTimestamp if there is none. Other fields of the command
// are ignored. It writes no page, so its memory does not depend on the rows.
func (e *Reads) Newest(cmd *row.ReadCommand) (newest int64, err error) {
	if err := e.opts.DB.Err(); err != nil {
		return 0, err
	}
	r := e.readers.Get().(*reader)
	// No page is written, so there is no memory for one.
	r.begin(e, nil, cmd)
	r.alone = true
	err = r.safely(func() (err error) {
		newest, err = newestRead{r}.newest()
		return err
	})
	if err == nil {
		err = e.opts.DB.Err()
	}
	r.release()
	e.readers.Put(r)
	// As in Read, rows with many operands are collapsed now that the iterator is closed.
	if e.opts.Hot.Len() > 0 {
		e.opts.Fold()
	}
	// All other errors come from the disk. TooManyTombstones cannot occur, because tombstones are not counted here.
	if err != nil && !errors.Is(err, failure.ErrInvalid) && !Canceled(err) {
		err = failure.Of(err)
	}
	return newest, err
}

// newestRead is a reader that looks for timestamps. It counts neither tombstones nor live rows.
type newestRead struct{ *reader }

func (r newestRead) newest() (newest int64, err error) {
	// A timestamp from a range that this node may have lost could be too old.
	if err := r.checkLost(); err != nil {
		return 0, err
	}
	if err := r.openOne(); err != nil {
		return 0, err
	}
	// NoTimestamp is less than every timestamp, so max needs no case for an empty partition.
	newest = row.NoTimestamp
	// The flag must be checked after the iterator was created: see headers.Flags.
	if r.e.opts.Headers.Has(r.cmd.Table) && r.iter.SeekPrefixGE(r.lower) {
		if newest, err = r.newestOfHeader(); err != nil {
			return 0, err
		}
	}
	// The bound must be loaded after the iterator was created, see skip.go.
	if r.e.opts.Bounds.Reached(r.cmd.Table, r.cmd.Key.Token, newest) {
		return newest, nil // no row is newer
	}
	for _, s := range r.cmd.Slices {
		// Slices come in any order, so the iterator seeks and does not step.
		r.seek = append(append(append(r.seek[:0], r.prefix...), byte(row.KindRow)), s.Start...)
		// Only one row can match, so the iterator need not move on from it.
		if s.Exact() { // uses the bloom filter
			if r.iter.SeekPrefixGE(r.seek) {
				newest, err = r.newer(newest)
			}
		} else {
			for valid := r.iter.SeekGE(r.seek); valid && err == nil && r.inSlice(s); valid = r.iter.Next() {
				newest, err = r.newer(newest)
			}
		}
		if err = errors.Join(err, r.iter.Error()); err != nil {
			return 0, err
		}
	}
	return newest, nil
}

// newer returns the newest timestamp of the row at the iterator, or t.
func (r newestRead) newer(t int64) (int64, error) {
	if err := r.look(); err != nil {
		return 0, err
	}
	value, err := r.iter.ValueAndErr()
	if err != nil {
		return 0, err
	}
	// The time only determines what is live, which does not matter here.
	sum, err := row.Summarize(value, 0)
	if err != nil {
		return 0, r.badValue(err)
	}
	return max(t, sum.TimestampMax), nil
}

// newestOfHeader returns the newest timestamp of the header at the iterator, and of the range tombstones that affect
// the requested rows.
func (r newestRead) newestOfHeader() (newest int64, err error) {
	value, err := r.iter.ValueAndErr()
	if err != nil {
		return 0, err
	}
	header, err := r.stream.Inspect(value, 0)
	if err != nil {
		return 0, r.badValue(err)
	}
	// The timestamp is row.NoTimestamp if the partition is not deleted.
	newest = header.Deletion.Timestamp
	// The static cells count only if the command asks for them. The deletion of the partition always does.
	if r.cmd.StaticCounts {
		if newest, err = r.newer(newest); err != nil {
			return 0, err
		}
	}
	if !header.RangeTombstones {
		return newest, nil
	}
	r.seek = append(append(r.seek[:0], r.prefix...), byte(row.KindRangeTombstone))
	for valid := r.iter.SeekGE(r.seek); valid && bytes.HasPrefix(r.iter.Key(), r.seek); valid = r.iter.Next() {
		// The bounds are compared immediately, so the arena is reused for each tombstone.
		r.arena = r.arena[:0]
		t, err := r.rangeTombstone()
		if err != nil {
			return 0, err
		}
		if r.concerns(t) {
			newest = max(newest, t.Deletion.Timestamp)
		}
	}
	return newest, r.iter.Error()
}

// concerns reports whether t deletes rows of a requested slice. A nil end of a slice means that it has no end; range
// tombstones always have one.
func (r newestRead) concerns(t row.RangeTombstone) bool {
	for _, s := range r.cmd.Slices {
		if bytes.Compare(s.Start, t.End) < 0 && (s.End == nil || bytes.Compare(t.Start, s.End) < 0) {
			return true
		}
	}
	return false
}

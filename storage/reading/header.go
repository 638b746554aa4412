package reading

import (
	"bytes"

	"cqld/internal/invariant"
	"cqld/row"
	"cqld/storage/failure"
	"cqld/storage/rowkey"
)

// readHeader reads a header, and the range tombstones if there are any. value and err are what the iterator, or the
// cache, has for the header. It keeps the header, which may be as large as a row, in its encoded form: decoded cells of
// a collection take a multiple of that.
func (r *reader) readHeader(value []byte, err error) error {
	if err != nil {
		return err
	}
	r.cmd.Process(len(value))
	var stored row.Outline
	r.header, stored, r.shown, err = r.stream.Header(r.header[:0], value, r.gcBefore, r.cmd.Now)
	if err != nil {
		return r.badValue(err)
	}
	r.deletion = stored.Deletion
	// The flag of the header saves the seek for range tombstones. It stays set when they are purged.
	if !stored.RangeTombstones {
		r.add(r.lower, value)
		return nil
	}
	invariant.Check(!r.hit, "reading: the cache has the header of a partition with range tombstones")
	// The cache has no range tombstones, without which a row may not be read.
	r.adds = nil
	return r.readRangeTombstones()
}

// readRangeTombstones reads all range tombstones of the partition, because one that begins before the slices may reach
// into them.
func (r *reader) readRangeTombstones() error {
	r.raw, r.arena = r.raw[:0], r.arena[:0]
	r.seek = append(append(r.seek[:0], r.prefix...), byte(row.KindRangeTombstone))
	for valid := r.toKey(); valid && bytes.HasPrefix(r.iter.Key(), r.seek); valid = r.iter.Next() {
		t, err := r.rangeTombstone()
		if err != nil {
			return err
		}
		r.raw = append(r.raw, t)
		if err := r.met(2); err != nil { // a start and an end, as Cassandra counts
			return err
		}
	}
	// Purged tombstones still shadow rows here, because the rows may not have been purged yet.
	r.deletions = row.NormalizeRangeTombstones(r.raw, r.deletion)
	invariant.Check(len(r.deletions) < 2*len(r.raw)+1, "reading: more intervals than bounds of range tombstones")
	for _, t := range row.CutRangeTombstones(r.deletions, r.cmd.Slices) {
		// A purged tombstone is not in the page: other replicas may have removed it.
		if t.Deletion.LocalTime >= r.gcBefore {
			r.shownRT = append(r.shownRT, t)
		}
	}
	return r.iter.Error()
}

// rangeTombstone returns the range tombstone at the iterator, with copied bounds.
func (r *reader) rangeTombstone() (t row.RangeTombstone, err error) {
	var ok bool
	if r.arena, t.Start, t.End, ok = rowkey.ParseRangeTombstone(r.arena, r.iter.Key()[len(r.prefix):]); !ok {
		return t, failure.BadKey(r.iter.Key())
	}
	value, err := r.iter.ValueAndErr()
	if err != nil {
		return t, err
	}
	if err := row.DecodeRow(&r.stored, value); err != nil {
		return t, r.badValue(err)
	}
	t.Deletion = r.stored.Deletion
	return t, nil
}

package reading

import (
	"cqld/internal/invariant"
	"cqld/row"
)

// omits reports whether the filter omits a row whose encoded form is canonical. It omits deleted rows by their
// clustering only: the page contains the other ones, so that the coordinator counts their tombstones. A coordinator
// that merges several replicas must still see a deletion, although the row that it deletes does not match here.
func (r *reader) omits(clustering, value []byte, live bool) (bool, error) {
	// All versions of a row have the same clustering, so the answer holds for the other replicas too, and for its
	// tombstones.
	if !r.filter.Clustering(clustering) {
		return true, nil
	}
	if !live {
		return false, nil
	}
	matches, err := r.filter.Encoded(&r.stream, value)
	if err != nil {
		return false, r.badValue(err)
	}
	return !matches, nil
}

// dropRow counts a row of n bytes that the filter omits. If the read has reached its limit of omitted rows, dropRow
// ends the page after the row and returns true. Rows that are omitted cost a read without filling a page, so they are
// bounded by their own limits.
func (r *reader) dropRow(clustering []byte, n int) (done bool) {
	if !r.dropped(n) {
		return false
	}
	r.endAfter(clustering, false)
	return true
}

// dropPartition is dropRow for a partition, unless err is an error of its header.
func (r *reader) dropPartition(err error) error {
	if err != nil {
		return r.badValue(err)
	}
	// In a read of one partition no other follows, so the page need not end early.
	if !r.cmd.SinglePartition() && r.dropped(0) {
		r.endAfter(nil, true)
	}
	return nil
}

// dropped counts a row or partition of n bytes, and reports whether the page ends.
func (r *reader) dropped(n int) bool {
	invariant.Check(n >= 0, "reading: a row of negative size was omitted")
	r.omitted++
	r.omittedBytes += n
	return r.omitted >= r.e.opts.FilterRows || r.omittedBytes >= filterBytesMax
}

// endAfter ends the page after a row of the current partition or, if whole, after the whole partition.
func (r *reader) endAfter(clustering []byte, whole bool) {
	r.full = true
	r.end = row.Position{
		// The key is copied, because r.key points into the prefix, which the next partition overwrites.
		Key:        row.PartitionKey{Token: r.key.Token, Bytes: append([]byte{}, r.key.Bytes...)},
		Clustering: append(r.end.Clustering[:0], clustering...), Whole: whole,
	}
}

// onlyStatic reports whether the page may omit the header of a partition without rows, because the header is merged
// with no other and deletes nothing. A partition without matching rows is no row of the result even if it has static
// cells, unless StaticCounts is set.
func (p *partition) onlyStatic(cmd *row.ReadCommand) bool {
	f := cmd.Filter
	return f != nil && f.Decisive && !cmd.StaticCounts && len(p.shownRT) == 0 && !p.shown.Deletion.Present()
}

// finish ends the page and returns it. It is called once, after a read without an error.
func (r *reader) finish() []byte {
	// Without "more", the coordinator would not request the rows after the position.
	invariant.Check(r.end.Key.Bytes == nil || r.full, "reading: a page ends at a position, but is complete")
	// The page contains its end position, so that rows omitted after its last row are not read again.
	if r.end.Key.Bytes != nil {
		return r.w.FinishAfter(&r.end)
	}
	return r.w.Finish(r.full)
}

package reading

import (
	"cqld/internal/invariant"
	"cqld/row"
)

// writeEncoded adds a row whose stored form is canonical, which is the usual case: value is copied from the block
// cache into the page once. done means that no further row of the partition is needed.
func (r *reader) writeEncoded(clustering, value []byte, live bool) (done bool, err error) {
	// undo returns to this state if the row does not fit.
	mark, begun := r.w.Len(), r.begun
	r.beginPage()
	// before a large row is copied
	if n := r.size() + row.EncodedRowLen(clustering, value); r.exceeds(n) {
		return true, r.undo(mark, begun, n)
	}
	r.w.EncodedRow(clustering, value)
	return r.wrote(live), nil
}

// writeCanonical adds the live and unpurged parts of a row; deletion is the newest deletion of the partition and of
// range tombstones that covers it.
func (r *reader) writeCanonical(clustering, value []byte, deletion row.Deletion) (done bool, err error) {
	mark, begun := r.w.Len(), r.begun
	r.beginPage()
	// The size of the remaining parts is known only afterwards, so the row is written first and undone if it must not
	// stay.
	left, live, err := r.w.Canonical(&r.stream, clustering, value, deletion, r.gcBefore, r.cmd.Now)
	if err != nil {
		err = r.badValue(err)
	}
	omit := false
	// The filter is applied to the cells that a client would see, not to deleted ones.
	if left != nil && r.filter.Active() {
		omit, err = r.omits(clustering, left, live)
	}
	// Nothing of the row is in the page.
	if left == nil || omit || err != nil {
		r.w.Undo(mark)
		// A header that was written only for this row is undone as well.
		r.begun = begun
		return omit && r.dropRow(clustering, len(value)), err
	}
	if n := r.size(); r.exceeds(n) {
		return true, r.undo(mark, begun, n)
	}
	return r.wrote(live), nil
}

// size returns the bytes of the page, including the reader's copy of its partition's header.
func (r *reader) size() int { return r.w.Len() - r.pageStart + r.copied() }

// copied returns the size of the reader's copy of a large header, which it keeps until the partition ends.
func (p *partition) copied() int {
	// A small copy is ignored. A large one needs memory in addition to the page.
	if n := len(p.header); n > headerFree {
		return n
	}
	return 0
}

// exceeds reports whether a page of n bytes is larger than the command allows. A page without a limit of bytes ends at
// pageBytes instead, after the row that exceeds it.
func (r *reader) exceeds(n int) bool { return r.cmd.Limits.Bytes > 0 && n > int(r.cmd.Limits.Bytes) }

// undo ends the page at mark, because the row after it would make it a page of n bytes. begun reports whether the
// page had the partition's header at mark. A page that would be empty is an error, which requests room for as many
// bytes of rows as a large header has, because each page repeats the header. The end depends only on the contents of
// the page, so that replicas with the same data return the same bytes.
func (r *reader) undo(mark int, begun bool, n int) error {
	invariant.Check(mark >= r.pageStart && mark <= r.w.Len(), "reading: a page ends outside of itself")
	invariant.Check(!begun || mark > r.pageStart, "reading: an empty page has a partition's header")
	r.w.Undo(mark)
	if r.begun = begun; mark == r.pageStart {
		return &row.PageTooSmall{Bytes: n + r.copied()}
	}
	r.full, r.cut = true, true
	return nil
}

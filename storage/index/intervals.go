package index

import (
	"bytes"
	"slices"

	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// intervals iterates over the entries of intervals of terms of one index, in the order of their keys or in reverse.
// One iterator moves through all of them: an IN of many values costs a seek for each value that has entries, not an
// iterator for each, and all entries are of one state of the database.
type intervals struct {
	entries *storage.Entries
	// terms contains the intervals that are not exhausted, in the order of the iteration.
	terms    []row.Slice
	reversed bool
	// bounds returns the interval of the entries of an interval of terms. It may be empty.
	bounds func(row.Slice) bounds
	now    bounds // of the first of terms, if known
	known  bool
	// entered means that the iterator was moved to the present interval, or past its beginning.
	entered bool
}

// openIntervals opens an iterator over the entries of terms, which are ascending. cut may narrow intervals.
func (s *search) openIntervals(id schema.StorageID, terms []row.Slice, reversed bool,
	open func(bounds) (*storage.Entries, error), cut func(row.Slice) bounds) (x *intervals, err error) {
	terms = slices.DeleteFunc(slices.Clone(terms), func(t row.Slice) bool { return t.Empty() })
	x = &intervals{terms: terms, reversed: reversed, bounds: cut}
	if len(terms) == 0 {
		return x, nil
	}
	b := keyBounds(id, terms[0])
	b.end = keyBounds(id, terms[len(terms)-1]).end
	if reversed {
		slices.Reverse(terms)
	}
	x.entries, err = open(b)
	return x, err
}

// step moves the iterator once. found reports whether it is at an entry of the intervals, and more is false if no entry
// follows. A step without an entry follows the last entry of an interval.
func (x *intervals) step() (found, more bool) {
	// Intervals before the position of the query are empty, and are skipped.
	for len(x.terms) > 0 && !x.known {
		x.now = x.bounds(x.terms[0])
		if x.known = !x.now.empty(); !x.known {
			x.terms = x.terms[1:]
		}
	}
	if len(x.terms) == 0 || !x.move() {
		x.terms = nil
		return false, false
	}
	key := x.entries.Key()
	for len(x.terms) > 0 && x.passed(key) {
		x.known, x.entered, x.terms = false, false, x.terms[1:]
		if len(x.terms) > 0 {
			x.now, x.known = x.bounds(x.terms[0]), true
		}
	}
	// An interval after the entry needs a seek, in the next step. Terms that were cut to the same bytes have the same
	// interval, to which the iterator never moves back.
	x.entered = len(x.terms) > 0 && x.now.contains(key)
	return x.entered, len(x.terms) > 0
}

// move moves the iterator to the next entry, or to the first one of an interval.
func (x *intervals) move() bool {
	switch {
	case x.entered && x.reversed:
		return x.entries.Prev()
	case x.entered:
		return x.entries.Next()
	case x.reversed:
		return x.entries.SeekBefore(x.now.end)
	}
	return x.entries.Seek(x.now.start)
}

// passed reports whether an entry follows the present interval, in the direction of the iterator.
func (x *intervals) passed(key []byte) bool {
	if x.now.empty() {
		return true
	}
	if x.reversed {
		return bytes.Compare(key, x.now.start) < 0
	}
	return bytes.Compare(key, x.now.end) >= 0
}

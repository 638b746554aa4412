package index

import (
	"bytes"
	"slices"

	"cqld/row"
	"cqld/storage"
)

// rangeBounds are the bounds of a search of intervals in the order of tokens.
type rangeBounds struct {
	entries, rows, step int // rangeEntries, rangeRows and rangeStep
	kept                int // entries, stepKeys+1
	merged              int // mergedTerms
}

// usualRanges returns the bounds of limits.go.
func usualRanges() rangeBounds {
	return rangeBounds{rangeEntries, rangeRows, rangeStep, stepKeys + 1, mergedTerms}
}

// ranged passes on the entries of intervals in the order of their places. Entries are in the order of their terms, so
// it would have to look at all of them to find the first ones. If there are many, the rows of the table, which are in
// the order of places, may lead to a full page sooner. It depends on how many entries and rows there are, and neither
// is known. So ranged looks at entries and at rows alternately, and uses what finishes first: the entries, of which it
// then has the first ones, or the rows, with a full page. This takes at most about twice the time of the better of the
// two.
//
// Both find the same rows: a stored row is passed on if its terms, which its entries have as well, are in the query.
type ranged struct {
	s    *search
	kept firsts
	// Of the branches, read one after the other.
	entries []*intervals  // that were not looked at completely
	inOrder []placedEntry // once all entries were looked at
	listed  bool

	rows   *storage.StoredRows
	at     []byte // the place up to which rows were looked at; empty at first
	looked int    // rows
	left   int    // rows of this turn
	// Both count down from rangeRows and rangeBytes.
	bytes int    // of this turn
	entry []byte // what is passed on for a row
}

// sorted passes on the entries of intervals in the order of their places.
func (s *search) sorted(terms []row.Slice, open func(bounds) (*storage.Entries, error),
	f func(func() ([]byte, bool, error)) error) error {
	return s.sortedOf([]Branch{{s.q.Index, terms}}, open, f)
}

// sortedOf is sorted for intervals of terms of several indexes.
func (s *search) sortedOf(all []Branch, open func(bounds) (*storage.Entries, error),
	f func(func() ([]byte, bool, error)) error) error {
	r := ranged{s: s, kept: firsts{s: s, most: s.x.ranges.kept}}
	for _, branch := range all {
		e, err := s.openIntervals(branch.Index, branch.Terms, false, open,
			func(t row.Slice) bounds { return s.offered(branch.Index, t) })
		if err != nil {
			return err
		}
		r.entries = append(r.entries, e)
	}
	// The first turn belongs to the entries: a selective interval ends here, and no row is read.
	more, err := r.offer(s.x.ranges.entries)
	// Rows of the table are read forwards only, and entries of partitions do not stand for rows. Such searches look at
	// all entries.
	for more && err == nil && (s.q.Reversed || s.def.Partitions) {
		more, err = r.offer(s.x.ranges.entries)
	}
	if err != nil {
		return err
	}
	if !more {
		r.list()
		return f(r.next)
	}
	return s.x.host.StoredRows(s.q.Table, s.bounds.start, s.bounds.end, func(rows *storage.StoredRows) error {
		r.rows, r.left, r.bytes = rows, s.x.ranges.rows, rangeBytes
		return f(r.next)
	})
}

// offer looks at entries in up to n further steps. more means that there may be others.
func (r *ranged) offer(n int) (more bool, err error) {
	// Places that rows have covered are of no interest: the heap keeps entries after them.
	if len(r.at) > 0 {
		r.s.bounds.start = append(append(r.s.bounds.start[:0:0], r.at...), 0)
	}
	for ; n > 0 && len(r.entries) > 0; n-- {
		e := r.entries[0]
		found, further := e.step()
		if found {
			r.kept.offer(e.entries.Key())
		}
		if !further {
			r.entries = r.entries[1:]
		}
	}
	return len(r.entries) > 0, r.s.q.Cancel.Err()
}

// list continues with the entries after the rows that were looked at: all entries have been looked at.
func (r *ranged) list() {
	r.listed, r.s.derived = true, false
	r.inOrder = r.kept.inOrder()
	if len(r.at) > 0 {
		// Entries that were kept before rows passed their places would be candidates twice.
		r.inOrder = slices.DeleteFunc(r.inOrder, func(e placedEntry) bool { return bytes.Compare(e.place, r.at) <= 0 })
	}
}

// next returns the next entry, or one that stands for the next row. After false, Page.More says whether the step ended
// early.
func (r *ranged) next() ([]byte, bool, error) {
	s := r.s
	for !r.listed {
		switch {
		case s.enough():
			s.page.More = true
			return nil, false, nil
		// Few of many rows match: the step ends without a full page, and the next one continues after the last row.
		case r.looked >= s.x.ranges.step:
			r.endAtRow()
			return nil, false, nil
		// The turn of the rows is over; entries follow.
		case r.left <= 0 || r.bytes <= 0:
			more, err := r.offer(s.x.ranges.entries)
			if err != nil {
				return nil, false, err
			}
			if r.left, r.bytes = s.x.ranges.rows, rangeBytes; !more {
				r.list()
			}
			continue
		}
		x, ok, err := r.rows.Next()
		if !ok || err != nil {
			return nil, false, err
		}
		if r.has(&x) {
			// An entry with an empty term: in ByToken only its place counts.
			r.entry = append(appendTerm(appendIndex(r.entry[:0], s.q.Index), nil), r.at...)
			s.derived = true
			return r.entry, true, nil
		}
	}
	if len(r.inOrder) == 0 {
		// Entries after the last one kept were dropped from the heap, so the next step must look for them.
		if r.kept.dropped {
			r.endAtRow()
		}
		return nil, false, nil
	}
	e := r.inOrder[0]
	r.inOrder = r.inOrder[1:]
	return e.entry, true, nil
}

// endAtRow ends the page after the last row that was looked at, or after the last candidate if that is farther.
func (r *ranged) endAtRow() {
	r.s.page.More = true
	// A place never moves back: the next step would return candidates again.
	if bytes.Compare(r.at, r.s.page.Last) > 0 {
		r.s.page.Last = append(r.s.page.Last[:0], r.at...)
	}
}

// has reports whether a stored row has a term of the query. One that cannot be decoded does, so that its read fails.
func (r *ranged) has(x *storage.Entered) bool {
	s := r.s
	r.at = AppendPlace(r.at[:0], x.Key, x.Kind, x.Clustering)
	r.looked, r.left, r.bytes = r.looked+1, r.left-1, r.bytes-len(r.at)-len(x.Value)
	// Headers and range tombstones are stored between rows, and have no terms here.
	if x.Kind != row.KindRow || s.q.Slices != nil && !row.InSlices(s.q.Slices, x.Clustering) {
		return false
	}
	stored := &s.scratch.row
	if row.DecodeRow(stored, x.Value) != nil {
		return true
	}
	stored.Clustering = x.Clustering
	return s.hasTerm(&Source{Key: x.Key, Kind: x.Kind, Row: stored})
}

// hasTerm reports whether a row has a term of the query or of a branch.
func (s *search) hasTerm(x *Source) bool {
	s.scratch.found.Reset()
	s.source = *x
	s.def.Terms.Append(&s.scratch.found, &s.source, s.q.Now)
	return s.scratch.found.InAny(s.q.Terms) || s.inUnion()
}

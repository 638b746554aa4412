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

// ranged iterates over the entries of intervals in the order of their places. Entries are stored in the order of
// their terms, so finding the first places requires reading all entries. If there are many, the rows of the table,
// which are in the order of places, may lead to a full page sooner. It depends on how many entries and rows there
// are, and neither is known. So ranged reads entries and rows alternately, until either all entries have been read,
// and their first places are known, or the rows have filled the page. This takes at most about twice the time of the
// better of the two.
//
// Both find the same rows: a stored row is returned if its terms, which are the terms of its entries, are in the
// query.
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
	// left and bytes count down from rangeRows and rangeBytes.
	bytes int    // of this turn
	entry []byte // the substitute entry of a row
}

// sorted iterates over the entries of intervals in the order of their places.
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
	// Entries have the first turn: a selective interval ends here, without reading rows of the table.
	more, err := r.offer(s.x.ranges.entries)
	// Rows of the table are read forwards only, and entries of partitions do not belong to single rows, so these
	// searches read all entries.
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

// offer reads entries in up to n further steps. more means that further entries may follow.
func (r *ranged) offer(n int) (more bool, err error) {
	// Rows up to r.at have been returned already, so the heap keeps only entries after that place.
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

// list is called when all entries have been read: the search continues with the entries after the rows that were
// read.
func (r *ranged) list() {
	r.listed, r.s.derived = true, false
	r.inOrder = r.kept.inOrder()
	if len(r.at) > 0 {
		// Entries at places that rows have passed since would yield their rows twice.
		r.inOrder = slices.DeleteFunc(r.inOrder, func(e placedEntry) bool { return bytes.Compare(e.place, r.at) <= 0 })
	}
}

// next returns the next entry, or a substitute entry for the next row. After false, Page.More reports whether the
// step ended early.
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
		// The turn of the rows has ended, so the entries have theirs.
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
			// The substitute has an empty term, because in ByToken only its place counts.
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

// endAtRow ends the page after the last row that was read, or after the last candidate if that is farther.
func (r *ranged) endAtRow() {
	r.s.page.More = true
	// Last never moves back: otherwise the next step would return candidates again.
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

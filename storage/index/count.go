package index

import (
	"errors"

	"cqld/row"
	"cqld/storage"
)

// Count returns the number of entries that a search in ByToken examines, up to most, without reading rows: entries of
// single terms in the bounds of the query, and all entries of other intervals. It returns ErrNotBuilt for an index
// that is not built. The count is an upper bound, because stale entries and entries with equal cut terms are
// included. q.Limit, q.From and q.Filter do not count.
func (x *Values) Count(q *Query, most int) (n int, err error) {
	if err := x.host.Failed(); err != nil {
		return 0, err
	}
	def, ok := x.definition(q.Table, q.Index)
	if !ok || !x.Built(q.Table, q.Index) {
		return 0, ErrNotBuilt
	}
	// The search only computes bounds: it has neither scratch memory nor an iterator of rows.
	s := search{x: x, q: q, def: &def}
	if s.bounds = s.placeBounds(); s.bounds.empty() {
		return 0, nil
	}
	e, err := s.openIntervals(q.Index, cutTerms(s.def, q.Terms), false,
		func(b bounds) (*storage.Entries, error) { return x.host.Entries(q.Table, b.start, b.end) },
		func(t row.Slice) bounds { return s.offered(q.Index, t) })
	if err != nil || e.entries == nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.entries.Close()) }()
	// Stale entries are counted, because detecting them would require the reads of rows that the estimate should
	// save.
	for more := true; more && n < most; {
		var found bool
		if found, more = e.step(); found {
			n++
		}
	}
	return n, nil
}

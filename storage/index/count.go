package index

import (
	"errors"

	"cqld/row"
	"cqld/storage"
)

// Count counts the entries that a search in ByToken looks at, up to most, without reading rows: entries of single terms
// in the bounds of the query, and all entries of other intervals. Stale entries count. ErrNotBuilt is the error for an
// index that is not built. It is an estimate from above, as far as stale entries and terms that were cut count.
// q.Limit, q.From and q.Filter do not count.
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
	// Terms that are cut alike share entries, which are then counted several times.
	for _, t := range cutTerms(s.def, q.Terms) {
		if n >= most || err != nil {
			break
		}
		if !t.Empty() {
			err = s.count(t, most, &n)
		}
	}
	return n, err
}

// count counts the entries of an interval of terms, until there are most in all.
func (s *search) count(t row.Slice, most int, n *int) (err error) {
	b := s.offered(s.q.Index, t)
	var e *storage.Entries
	if e, err = s.x.host.Entries(s.q.Table, b.start, b.end); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	// Stale entries count too: the number is an estimate, and reading rows would cost what it saves.
	for valid := e.First(); valid && *n < most; valid = e.Next() {
		*n++
	}
	return nil
}

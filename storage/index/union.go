package index

import (
	"fmt"
	"slices"

	"cqld/row"
	"cqld/storage"
	"cqld/storage/failure"
)

// union returns the definitions of the branches of a query. def defines its own index. Errors are ErrNotBuilt, and
// failure.ErrInvalid for an order or an index that a union does not support. The order of the result is the order of
// q.Union.
func (x *Values) union(q *Query, def *Definition) ([]Definition, error) {
	if len(q.Union) == 0 {
		return nil, nil
	}
	out := make([]Definition, len(q.Union))
	for i, b := range q.Union {
		d, ok := x.definition(q.Table, b.Index)
		if !ok || !x.Built(q.Table, b.Index) {
			return nil, ErrNotBuilt
		}
		out[i] = d
	}
	if q.Order != ByToken || def.Partitions || slices.ContainsFunc(out,
		func(d Definition) bool { return d.Partitions }) {
		return nil, fmt.Errorf("%w union of indexes", failure.ErrInvalid)
	}
	return out, nil
}

// united iterates over the entries of all branches in the order of their places: by merging them if all terms are
// single and not too many, and otherwise after reading all of them. A row has an entry for each of its terms. The
// cost is the sum of the branches: a row that two of them find is read once.
func (s *search) united(open func(bounds) (*storage.Entries, error), f func(func() ([]byte, bool, error)) error) error {
	// The index of the query itself is the first branch.
	all := []Branch{{s.q.Index, cutTerms(s.def, s.q.Terms)}}
	for i, b := range s.q.Union {
		all = append(all, Branch{b.Index, cutTerms(&s.union[i], b.Terms)})
	}
	terms, single := 0, true
	for _, b := range all {
		terms += len(b.Terms)
		single = single && !slices.ContainsFunc(b.Terms, func(t row.Slice) bool { return !t.Exact() })
	}
	// As in withEntries: each cursor is an open iterator, so there must be few.
	if single && terms <= s.x.ranges.merged {
		return s.mergedOf(all, open, f)
	}
	return s.sortedOf(all, open, f)
}

// inUnion reports whether the row that was read has a term of a branch. It overwrites the terms that were found before.
func (s *search) inUnion() bool {
	for i := range s.union {
		s.scratch.found.Reset()
		s.union[i].Terms.Append(&s.scratch.found, &s.source, s.q.Now)
		if s.scratch.found.InAny(s.q.Union[i].Terms) {
			return true
		}
	}
	return false
}

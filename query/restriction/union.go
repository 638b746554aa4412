package restriction

import (
	"slices"

	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
)

// Branch is one branch of a union: intervals of terms in an index. The terms are ascending and disjoint.
type Branch struct {
	Index *schema.Index
	Terms []row.Slice
}

// unionOf returns a part for each branch of an OR, such that every matching row has a term of one part. It returns
// nil if a branch has no index, since that branch would need a scan, or if there are more than unionMax parts. For
// example, a = 1 OR (b = 2 AND c = 3) with indexes on a and b is the union of a = 1 and b = 2; c = 3 is a filter.
func (rs rules) unionOf(or *restriction) (union []indexedPart) {
	if or.kind != kindOr {
		return nil
	}
	for _, alternative := range or.any {
		parts := rs.branchOf(alternative)
		if len(parts) == 0 || len(union)+len(parts) > unionMax {
			return nil
		}
		union = append(union, parts...)
	}
	return union
}

// branchOf returns the part of a conjunction that is expected to select the fewest rows, or those of an OR in it.
// Index entries of static columns and partition keys refer to partitions and cannot be merged with entries of rows.
// Within OR, values are compared without analysis, so indexes with analyzers are excluded. One part of the
// conjunction is enough, because the filter evaluates the rest.
func (rs rules) branchOf(conjunction []*restriction) []indexedPart {
	var parts []indexedPart
	// No index finds the conjunction, but an OR in it may be found.
	for _, r := range conjunction {
		// Skip tokens, which no index contains, LIKE, whose interval may be the whole index, and ranges of several
		// columns, which have no terms.
		if r.token || r.kind == kindLike || r.multi && r.kind == kindSlice {
			continue
		}
		parts = rs.supportingList(r, rs.supporting(r, parts))
	}
	parts = slices.DeleteFunc(parts, func(p indexedPart) bool {
		kind := p.of.columns[p.column].Kind
		return p.analyzer != nil || kind != schema.Regular && kind != schema.Clustering
	})
	if len(parts) > 0 {
		return []indexedPart{slices.MinFunc(parts, func(a, b indexedPart) int { return a.rank() - b.rank() })}
	}
	for _, r := range conjunction {
		if nested := rs.unionOf(r); len(nested) > 0 {
			return nested
		}
	}
	return nil
}

// indexedOr reports whether indexes find the rows of OR, so that it needs no ALLOW FILTERING. With restrictions of
// other columns, all indexes must be storage-attached. As for AND, only storage-attached indexes combine several
// restrictions without a filter.
func (rs rules) indexedOr(or *restriction) bool {
	union := rs.unionOf(or)
	if len(union) == 0 || len(rs.expected) == 0 {
		return len(union) > 0
	}
	return !slices.ContainsFunc(union, func(p indexedPart) bool { return p.index.Class != schema.SAI }) &&
		!slices.ContainsFunc(rs.expected, func(r *restriction) bool { return !rs.found(r, true) })
}

// branches evaluates the terms of p and of the other parts of its union. It omits branches without terms, which match
// no row, so the first result may not be p itself. If the result is empty, no row matches.
func (p *indexedPart) branches(s *term.Scope) (out []Branch, err error) {
	add := func(p *indexedPart) error {
		terms, err := p.terms(s)
		if len(terms) > 0 {
			out = append(out, Branch{p.index, terms})
		}
		return err
	}
	if err := add(p); err != nil {
		return nil, err
	}
	for i := range p.union {
		if err := add(&p.union[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// countAll counts the entries of all branches, up to most. ok is false if one of them cannot be counted, because a
// partial sum would underestimate the cost of the union.
func countAll(branches []Branch, count EntryCounter, most int) (n int, ok bool) {
	for _, b := range branches {
		some, ok := count(b.Index, b.Terms, most-n)
		if !ok {
			return 0, false
		}
		n += some
	}
	return n, true
}

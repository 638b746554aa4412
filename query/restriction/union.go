package restriction

import (
	"slices"

	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
)

// Branch is intervals of terms of one more index, of a union. The terms are ascending and disjoint.
type Branch struct {
	Index *schema.Index
	Terms []row.Slice
}

// unionOf returns a part for each branch of OR such that every row that matches has one of them; nil if there is a
// branch without. The parts are at most unionMax. A union reads all of its branches, so one branch without an index
// makes all of them useless: that branch would need a scan. For example, a = 1 OR (b = 2 AND c = 3) with indexes on a
// and b is the union of a = 1 and b = 2; c = 3 is a filter.
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

// branchOf returns the part of a conjunction that is expected to select the fewest rows, or those of an OR in it. The
// entries of static columns and of partition keys are of partitions, and cannot be united with those of rows. Within
// OR, values are not analyzed, so that indexes with analyzers find none of them. One part is enough, because the filter
// evaluates the whole conjunction on the rows that are found.
func (rs rules) branchOf(conjunction []*restriction) []indexedPart {
	var parts []indexedPart
	// No index finds the conjunction, but an OR in it may be found.
	for _, r := range conjunction {
		// A token selects no entries, the intervals of LIKE may be the whole index, and a range of several columns has
		// no terms.
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
// other columns, all indexes must be storage-attached. The same rule holds for AND: only indexes of this kind combine
// several restrictions without a filter.
func (rs rules) indexedOr(or *restriction) bool {
	union := rs.unionOf(or)
	if len(union) == 0 || len(rs.expected) == 0 {
		return len(union) > 0
	}
	return !slices.ContainsFunc(union, func(p indexedPart) bool { return p.index.Class != schema.SAI }) &&
		!slices.ContainsFunc(rs.expected, func(r *restriction) bool { return !rs.found(r, true) })
}

// branches evaluates the terms of a part and of those united with it. Branches that no row can have are left out. The
// first branch that is left may not be p itself. No branch means that no row matches.
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
// partial sum would make the union look cheap.
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

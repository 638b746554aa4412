package restriction

import (
	"bytes"
	"slices"

	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
)

// boundSlices returns the slices of a range restriction r under each of the prefixes. Values of NOT IN in a DELETE
// divide a slice into several. The slices under two prefixes differ only in the prefix, so boundSlices computes them
// once without it, and checks the bound on their number before it builds them.
func (rs *Set) boundSlices(s *term.Scope, r *restriction, prefixes [][]byte) ([]row.Slice, error) {
	var lower, upper [][]byte
	var err error
	if r.lower != nil {
		if lower, err = r.lower.value.eval(s, r.columns, nil); err != nil {
			return nil, err
		}
	}
	if r.upper != nil {
		if upper, err = r.upper.value.eval(s, r.columns, nil); err != nil {
			return nil, err
		}
	}
	if err := rs.checkBounds(r, lower); err != nil {
		return nil, err
	}
	if err := rs.checkBounds(r, upper); err != nil {
		return nil, err
	}
	// An empty IN on an earlier column selects nothing.
	if len(prefixes) == 0 {
		return nil, nil
	}
	// Memory for slices of one column is already reserved, because they are as large as the values.
	if len(lower) > 1 || len(upper) > 1 {
		if err := s.Grow(comparisonBytes(lower) + comparisonBytes(upper)); err != nil {
			return nil, err
		}
	}
	in := []row.Slice{row.AllRows()}
	if lower != nil {
		// A bound on several columns is a union of slices, so intersect the unions of both bounds.
		in = comparisonSlices(r.columns, lower, true, r.lower.inclusive)
	}
	if upper != nil {
		in = intersect(in, comparisonSlices(r.columns, upper, false, r.upper.inclusive))
	}
	// Only a DELETE has excluded values.
	if len(r.excluded) > 0 {
		between, err := gaps(s, r.excluded)
		if err != nil {
			return nil, err
		}
		in = intersect(in, between)
	}
	slices.SortFunc(prefixes, bytes.Compare)
	prefixes = slices.CompactFunc(prefixes, bytes.Equal)
	// Both factors are about keysMax at most, so the product fits an int.
	product := len(prefixes) * len(in)
	// gaps bounds the slices under one prefix: one more than there are values.
	if product > keysMax && len(prefixes) > 1 {
		return nil, tooManyValues("clustering key", product)
	}
	if err := s.Grow(sliceBytes(prefixes, in)); err != nil {
		return nil, err
	}
	out := make([]row.Slice, 0, product)
	for _, p := range prefixes {
		for _, x := range in {
			out = append(out, under(p, x))
		}
	}
	return out, nil
}

// under returns the slice of the clusterings that consist of prefix and a clustering in s.
func under(prefix []byte, s row.Slice) row.Slice {
	if len(prefix) == 0 {
		return s
	}
	start := slices.Concat(prefix, s.Start)
	if s.End == nil {
		return row.Slice{Start: start, End: row.After(prefix)}
	}
	return row.Slice{Start: start, End: slices.Concat(prefix, s.End)}
}

// sliceBytes returns the memory of the slices in under all prefixes.
func sliceBytes(prefixes [][]byte, in []row.Slice) int {
	n := keyBytes * len(prefixes) * len(in)
	for _, p := range prefixes {
		n += 2 * len(p) * len(in)
	}
	for _, s := range in {
		n += (len(s.Start) + len(s.End)) * len(prefixes)
	}
	return n
}

// checkBounds refuses nulls in bounds of several columns. A SELECT may compare a single column with null, which is
// less than every value. A DELETE must not, because it would delete the whole partition; in Cassandra it times out.
// values may be nil, for no bound.
func (rs *Set) checkBounds(r *restriction, values [][]byte) error {
	for i, v := range values {
		if v == nil && (r.multi || rs.writes) {
			return invalid.Errorf("Invalid null value in condition for column %s", r.columns[i].Name)
		}
	}
	return nil
}

// comparisonSlices returns the clusterings whose first columns are greater (or less) than values: greater in the first
// column, or equal there and greater in the second, and so on. For example (a, b) > (1, 2) is a > 1, or a = 1 and b >
// 2. Each column gives one slice, since columns may have different orders. The slices do not overlap. With a DESC
// column, the clusterings with greater values sort first.
func comparisonSlices(columns []*schema.Column, values [][]byte, greater, inclusive bool) []row.Slice {
	var out []row.Slice
	var p []byte
	for i, v := range values {
		col := columns[i]
		// Clip: p is the prefix of the next column as well.
		next := col.Type.AppendOrdered(slices.Clip(p), v, col.Desc)
		s := row.Slice{Start: bytes.Clone(p)}
		// Without a prefix, the slice is unbounded.
		if len(p) > 0 {
			s.End = row.After(p)
		}
		// Only the last column may be equal: an equal earlier column is the prefix of the next slice.
		with := inclusive && i == len(values)-1
		if greater != col.Desc { // the selected clusterings sort after the value
			if s.Start = bytes.Clone(next); !with {
				s.Start = row.After(next)
			}
		} else {
			if s.End = bytes.Clone(next); with {
				s.End = row.After(next)
			}
		}
		out = append(out, s)
		p = next
	}
	return normalizeSlices(out)
}

// comparisonBytes returns the memory of comparisonSlices: the slice of each column repeats the values of all earlier
// columns, so the memory grows quadratically.
func comparisonBytes(values [][]byte) int {
	n, prefix := 0, 0
	for _, v := range values {
		// At least a byte that marks the value and one that ends it.
		prefix += len(v) + 2
		n += keyBytes + comparisonCopies*prefix
	}
	return n
}

// comparisonCopies is the number of copies of a prefix: two in the bounds of a slice, and one that the next column
// extends.
const comparisonCopies = 3

// gaps returns the clusterings that are not among the values of NOT IN, normalized. Each value splits a slice, so the
// total number of values has the same bound as rows.
func gaps(s *term.Scope, excluded []*restriction) ([]row.Slice, error) {
	// points contains the excluded clusterings or clustering prefixes.
	var points [][]byte
	for _, r := range excluded {
		values, err := r.evalNotIn(s)
		if err != nil {
			return nil, err
		}
		if n := len(points) + len(values); n > keysMax {
			return nil, tooManyValues("clustering key", n)
		}
		if err := s.Grow(clusteringBytes([][]byte{nil}, values)); err != nil {
			return nil, err
		}
		for _, v := range values {
			var p []byte
			for i, col := range r.columns {
				p = col.Type.AppendOrdered(p, v[i], col.Desc)
			}
			points = append(points, p)
		}
	}
	slices.SortFunc(points, bytes.Compare)
	var out []row.Slice
	// Build the slices from after each point to before the next.
	rest := row.AllRows()
	for _, p := range points {
		out = append(out, row.Slice{Start: rest.Start, End: p})
		// Lists may have different numbers of columns: a point also excludes the longer ones that begin with it.
		if after := row.After(p); bytes.Compare(after, rest.Start) > 0 {
			rest.Start = after
		}
	}
	return normalizeSlices(append(out, rest)), nil
}

// intersect returns the intersection of a and b, both normalized. It takes linear time.
func intersect(a, b []row.Slice) []row.Slice {
	var out []row.Slice
	for len(a) > 0 && len(b) > 0 {
		s := a[0]
		if bytes.Compare(b[0].Start, s.Start) > 0 {
			s.Start = b[0].Start
		}
		// Advance past the slice that ends first, which overlaps no further slice of the other list. A nil End is the
		// greatest.
		if s.End == nil || b[0].End != nil && bytes.Compare(b[0].End, s.End) < 0 {
			s.End = b[0].End
			b = b[1:]
		} else {
			a = a[1:]
		}
		if !s.Empty() {
			out = append(out, s)
		}
	}
	return out
}

// normalizeSlices sorts slices and merges adjacent ones. Empty slices are removed. It sorts in place and shares the
// bounds with in. Normalized means sorted, not empty, and with a gap between two of them.
func normalizeSlices(in []row.Slice) []row.Slice {
	slices.SortFunc(in, func(a, b row.Slice) int { return bytes.Compare(a.Start, b.Start) })
	var out []row.Slice
	for _, s := range in {
		if s.Empty() {
			continue
		}
		// s begins within the last slice, or where it ends.
		if n := len(out); n > 0 && (out[n-1].End == nil || bytes.Compare(s.Start, out[n-1].End) <= 0) {
			last := &out[n-1]
			if last.End != nil && (s.End == nil || bytes.Compare(s.End, last.End) > 0) {
				last.End = s.End
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

package entity

import (
	"slices"
	"strings"

	"cqld/azuretables/odata"
	"cqld/row"
)

// interval is the range of strings from From (inclusive) to To (exclusive) in byte order. Endless means that there is
// no To. The empty interval has To <= From; the zero value is the empty one. All ranges of keys are of this form, so
// that intersections need no flags for their ends.
type interval struct {
	From, To string
	Endless  bool
}

// everything returns the interval of all strings.
func everything() interval { return interval{Endless: true} }

// after returns the next string in byte order. "" follows no string, and s+"\x00" is the first one that follows s. Byte
// order is the order of partition listings and of clusterings.
func after(s string) string { return s + "\x00" }

// only returns the interval of the string s. It is [s, s+00).
func only(s string) interval { return interval{From: s, To: after(s)} }

// one returns the string in an interval that contains exactly one. It holds only for intervals that only and intersect
// have made. [a, a+00) is the only form with one string.
func (i interval) one() (s string, ok bool) {
	n := len(i.From)
	return i.From, !i.Endless && len(i.To) == n+1 && i.To[n] == 0 && i.To[:n] == i.From
}

// empty reports whether the interval contains no string.
func (i interval) empty() bool { return !i.Endless && i.To <= i.From }

// all reports whether it contains every string.
func (i interval) all() bool { return i.Endless && i.From == "" }

// contains reports whether s is in it.
func (i interval) contains(s string) bool { return s >= i.From && (i.Endless || s < i.To) }

// intersect returns the strings that both intervals contain. The result may be empty in any form with To <= From.
func (i interval) intersect(o interval) interval {
	out := interval{From: max(i.From, o.From), Endless: i.Endless && o.Endless}
	switch {
	case out.Endless:
	case i.Endless:
		out.To = o.To
	case o.Endless:
		out.To = i.To
	default:
		out.To = min(i.To, o.To)
	}
	return out
}

// startingWith returns the interval of the strings with prefix p. An empty prefix is a prefix of everything.
func startingWith(p string) interval {
	for n := len(p); n > 0; n-- {
		// The last byte that can be increased gives the end; bytes of 0xFF end with it.
		if p[n-1] < 0xFF {
			return interval{From: p, To: p[:n-1] + string([]byte{p[n-1] + 1})}
		}
	}
	return interval{From: p, Endless: true}
}

// of returns the interval of strings for which the comparison with s holds; exact is false if it contains others, too.
// exact is false only for operators without an interval, such as contains. It is for keys only.
func of(op odata.Op, s string) (i interval, exact bool) {
	switch op {
	case odata.Eq:
		return only(s), true
	case odata.Gt:
		return interval{From: after(s), Endless: true}, true
	case odata.Ge:
		return interval{From: s, Endless: true}, true
	case odata.Lt:
		return interval{To: s}, true
	case odata.Le:
		return interval{To: after(s)}, true
	case odata.StartsWith:
		return startingWith(s), true
	}
	// Ne has two intervals, and is handled by the caller.
	return everything(), false
}

// join sorts intervals and merges those that overlap or adjoin. The result is in order and may share memory with in. in
// is sorted in place.
func join(in []interval) []interval {
	slices.SortFunc(in, func(a, b interval) int { return strings.Compare(a.From, b.From) })
	out := in[:0]
	for _, i := range in {
		if i.empty() {
			continue
		}
		// Adjoining intervals are merged too, so that a partition is read once for them.
		if n := len(out); n > 0 && (out[n-1].Endless || i.From <= out[n-1].To) {
			if i.Endless {
				out[n-1].Endless, out[n-1].To = true, ""
			} else if !out[n-1].Endless {
				out[n-1].To = max(out[n-1].To, i.To)
			}
			continue
		}
		out = append(out, i)
	}
	return out
}

// keyRectangle is the set of entities whose keys lie in two intervals. A filter may select keys that a rectangle
// contains and the filter does not match; the rows are then filtered. Rectangles are the shape that conjunctions of
// comparisons of both keys have.
type keyRectangle struct{ partitions, rows interval }

// keyRectangles contains all entities that a filter matches; exact means that it contains no others. An empty list with
// exact matches nothing. An inexact set costs a filter of each row that is read.
type keyRectangles struct {
	list  []keyRectangle
	exact bool
}

// allRectangles returns the rectangle of all entities.
func allRectangles(exact bool) keyRectangles {
	return keyRectangles{[]keyRectangle{{everything(), everything()}}, exact}
}

// rectanglesOf returns the key rectangles of a filter, or of its negation if not is true. Properties other than the
// keys do not restrict the rectangles, and make them inexact. Negation is pushed into the comparisons, because the
// complement of a rectangle is not a rectangle. The number of rectangles is bounded by rectanglesMax at each step.
func rectanglesOf(x odata.Expr, not bool) keyRectangles {
	switch x := x.(type) {
	case nil:
		return allRectangles(true)
	case *odata.And:
		// De Morgan's laws.
		if not {
			return either(rectanglesOf(x.Left, true), rectanglesOf(x.Right, true))
		}
		return both(rectanglesOf(x.Left, false), rectanglesOf(x.Right, false))
	case *odata.Or:
		if not {
			return both(rectanglesOf(x.Left, true), rectanglesOf(x.Right, true))
		}
		return either(rectanglesOf(x.Left, false), rectanglesOf(x.Right, false))
	case *odata.Not:
		return rectanglesOf(x.X, !not)
	// A constant that is false matches nothing, and needs no read.
	case *odata.Constant:
		if x.True == not {
			return keyRectangles{exact: true}
		}
		return allRectangles(true)
	case *odata.Comparison:
		return comparisonRectangles(x, not)
	}
	// An unknown expression: every entity, filtered.
	return allRectangles(false)
}

// comparisonRectangles returns the rectangles of a comparison. Only keys that are strings bound the rectangles. A
// comparison with another type matches no key, and is left to the filter.
func comparisonRectangles(x *odata.Comparison, not bool) keyRectangles {
	if x.Value.Type != odata.String || x.Property != "PartitionKey" && x.Property != "RowKey" {
		return allRectangles(false)
	}
	op := x.Op
	if not {
		// Operators without an opposite become 0, for which of returns every string.
		op = opposite(op)
	}
	s := string(x.Value.Bytes)
	var list []interval
	exact := true
	// All keys but one: two intervals.
	if op == odata.Ne {
		below, _ := of(odata.Lt, s)
		above, _ := of(odata.Gt, s)
		list = []interval{below, above}
	} else {
		var i interval
		i, exact = of(op, s)
		list = []interval{i}
	}
	out := keyRectangles{exact: exact}
	for _, i := range list {
		switch {
		case i.empty():
		case x.Property == "PartitionKey":
			// The other key is not restricted.
			out.list = append(out.list, keyRectangle{i, everything()})
		default:
			out.list = append(out.list, keyRectangle{everything(), i})
		}
	}
	return out
}

// opposite returns the comparison that holds exactly where op does not, or 0 if there is none. A property that an
// entity lacks makes both comparisons false, but keys always exist. Contains and StartsWith have none.
func opposite(op odata.Op) odata.Op {
	switch op {
	case odata.Eq:
		return odata.Ne
	case odata.Ne:
		return odata.Eq
	case odata.Gt:
		return odata.Le
	case odata.Ge:
		return odata.Lt
	case odata.Lt:
		return odata.Ge
	case odata.Le:
		return odata.Gt
	}
	return 0
}

// both returns the intersection of a and b. The product of both lists may be empty, which then reads nothing. If the
// product is too large, the result is inexact.
func both(a, b keyRectangles) keyRectangles {
	// The result would be longer than the query can handle.
	if len(a.list)*len(b.list) > rectanglesMax {
		// Each side alone contains the intersection; the shorter list is used.
		if len(b.list) < len(a.list) {
			a = b
		}
		return keyRectangles{a.list, false}
	}
	out := keyRectangles{exact: a.exact && b.exact}
	for _, x := range a.list {
		// The intersection of two rectangles is a rectangle.
		for _, y := range b.list {
			z := keyRectangle{x.partitions.intersect(y.partitions), x.rows.intersect(y.rows)}
			if !z.partitions.empty() && !z.rows.empty() {
				out.list = append(out.list, z)
			}
		}
	}
	return out
}

// either returns the union of a and b. Overlapping rectangles are merged by partitionRanges. Its rectangles may
// overlap.
func either(a, b keyRectangles) keyRectangles {
	out := keyRectangles{slices.Concat(a.list, b.list), a.exact && b.exact}
	// A batch of point reads stays exact.
	if len(out.list) <= rectanglesMax {
		return out
	}
	// The bounding rectangle of all of them contains the union.
	bounding := keyRectangle{partitions: hull(out.list, func(b keyRectangle) interval { return b.partitions }),
		rows: hull(out.list, func(b keyRectangle) interval { return b.rows })}
	return keyRectangles{list: []keyRectangle{bounding}}
}

// hull returns the smallest interval that contains all sides of the rectangles. list is not empty.
func hull(list []keyRectangle, side func(keyRectangle) interval) interval {
	// An endless side has no end to compare.
	out := side(list[0])
	for _, b := range list[1:] {
		i := side(b)
		out.From = min(out.From, i.From)
		if out.Endless = out.Endless || i.Endless; out.Endless {
			out.To = ""
		} else {
			out.To = max(out.To, i.To)
		}
	}
	return out
}

// partitionRange is a range of consecutive partitions in which a query reads the same rows. The ranges of a query are
// disjoint and in key order. rows is never empty.
type partitionRange struct {
	partitions interval
	rows       []interval // in order, disjoint
}

// partitionRanges converts key rectangles to partition ranges in key order. It cuts the key space at every bound, so
// the rows of each piece are the same, and merges pieces that read the same rows. For example, the rectangles a–c × r1
// and b–d × r2 become:
//
//	a ── b   rows r1
//	b ── c   rows r1, r2
//	c ── d   rows r2
func partitionRanges(list []keyRectangle) []partitionRange {
	if len(list) == 0 {
		return nil
	}
	bounds := make([]string, 0, 2*len(list))
	for _, b := range list {
		bounds = append(bounds, b.partitions.From)
		if !b.partitions.Endless {
			bounds = append(bounds, b.partitions.To)
		}
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	var out []partitionRange
	// A piece begins at a bound, so a rectangle contains all of it or nothing of it.
	for i, from := range bounds {
		s := partitionRange{partitions: interval{From: from, Endless: true}}
		if i+1 < len(bounds) {
			s.partitions = interval{From: from, To: bounds[i+1]}
		}
		for _, b := range list {
			if b.partitions.contains(from) {
				s.rows = append(s.rows, b.rows)
			}
		}
		if s.rows = join(s.rows); len(s.rows) == 0 {
			continue
		}
		// Adjoining ranges with the same rows become one.
		if n := len(out); n > 0 && !out[n-1].partitions.Endless && out[n-1].partitions.To == from &&
			slices.Equal(out[n-1].rows, s.rows) {
			out[n-1].partitions.To, out[n-1].partitions.Endless = s.partitions.To, s.partitions.Endless
			continue
		}
		out = append(out, s)
	}
	return out
}

// planOf returns the plan that reads the partition ranges. It describes the cost to the client: the fewest partitions
// first. An empty list, which reads nothing, is a point query as well. It does not look at the filter, which may make a
// plan cheaper than it looks.
func planOf(list []partitionRange) Plan {
	plan := PointQuery
	for _, s := range list {
		if _, ok := s.partitions.one(); !ok {
			if s.partitions.all() {
				// The only partition that contains everything is the whole table.
				return TableScan
			}
			plan = PartitionRangeScan
			continue
		}
		for _, r := range s.rows {
			// One row per partition is still a point query.
			if _, ok := r.one(); !ok && plan == PointQuery {
				plan = RowRangeScan
			}
		}
	}
	return plan
}

// slices returns the slices of clusterings for intervals of RowKeys, ascending. Clusterings of a descending table are
// in the opposite order of RowKeys. row.Slice has an inclusive start and an exclusive end, in the order of storage.
func (p *plan) slices(in []interval) []row.Slice {
	out := make([]row.Slice, 0, len(in))
	for _, i := range in {
		out = append(out, p.slice(i))
	}
	if p.desc {
		slices.Reverse(out)
	}
	return out
}

// slice returns the slice of one interval. The interval is not empty.
func (p *plan) slice(i interval) row.Slice {
	bound := func(s string) []byte { return p.appendClustering(nil, []byte(s)) }
	// A read of one row can stop after it.
	if s, ok := i.one(); ok {
		return row.ExactRow(bound(s))
	}
	var out row.Slice
	// An empty From means the beginning of the partition; there is no smaller clustering.
	switch {
	case !p.desc:
		if i.From != "" {
			out.Start = bound(i.From)
		}
		if !i.Endless {
			out.End = bound(i.To)
		}
	default:
		// Descending: RowKeys after To come first. Nothing lies between a clustering and the same followed by 00.
		if !i.Endless {
			out.Start = append(bound(i.To), 0)
		}
		if i.From != "" {
			out.End = append(bound(i.From), 0)
		}
	}
	return out
}

package restriction

import (
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
)

// Choice is the index by which the rows of a statement are found. It belongs to one execution, because the terms depend
// on bound values. The zero Choice means that no index is used.
type Choice struct {
	Index *schema.Index // nil if there is none
	// Terms are the intervals of terms in which it is searched, ascending and disjoint. None means that no row matches.
	// WHERE must still be evaluated on the rows that are found.
	Terms []row.Slice
	// Union has the other branches of an OR: a row may have a term of one of them instead.
	Union []Branch
	// Counted has the indexes whose entries were counted to choose one of them. It is empty if there was nothing to
	// choose.
	Counted []Counted
}

// Counted is how many entries of an index a statement would look at. The number is an upper bound of the rows, as an
// entry may be of an old version of its row. EXPLAIN shows them, so that a user understands the choice.
type Counted struct {
	Index   *schema.Index
	Entries int
	More    bool // counting ended at Entries
}

// EntryCounter counts the entries of an index in intervals of terms, up to most. It is not ok if they cannot be
// counted. It counts on one node only, and must be cheap: it runs before every execution of a plan with several
// candidates. It may look at stale data: the numbers only order the indexes.
type EntryCounter func(ix *schema.Index, terms []row.Slice, most int) (n int, ok bool)

// ChooseIndex chooses one of the indexes that can find the rows. It prefers the one with the fewest entries by count
// and, if the numbers are equal or count is nil, the kind of restriction that is expected to select the fewest rows.
// The error is an error in the values of the expected best index. An empty list of Terms means that no row can match,
// even if another index would find rows, since all relations must hold. The choice may differ between pages of a
// result; positions are therefore of the order of tokens and not of an index.
func (rs *Set) ChooseIndex(s *term.Scope, count EntryCounter) (c Choice, err error) {
	if len(rs.candidates) == 0 {
		return c, nil
	}
	// The first candidate is evaluated even without a choice, because its terms are needed for the search.
	first, err := rs.candidates[0].branches(s)
	c.Index = rs.candidates[0].index
	// An error of the values, or a restriction that no value satisfies.
	if err != nil || len(first) == 0 {
		return c, err
	}
	// The expected best, unless a count shows a better one.
	c.take(first)
	if len(rs.candidates) == 1 || count == nil {
		return c, nil
	}
	// Counting never needs more than the best number so far: a candidate that reaches it has lost.
	least := entriesCounted
	for i := range rs.candidates {
		branches := first
		if i > 0 {
			if branches, err = rs.candidates[i].branches(s); err != nil || len(branches) == 0 {
				continue // filters return the error, if there is one
			}
		}
		n, ok := countAll(branches, count, least)
		// An index that cannot be counted is chosen only if it is the expected best.
		if !ok {
			continue
		}
		// Branches that no row can have were left out, so branches[0] may be another branch of a union than the
		// candidate itself.
		c.Counted = append(c.Counted, Counted{branches[0].Index, n, n == least})
		// Of equal numbers, the candidate with the better rank stays.
		if n < least {
			c.take(branches)
			least = n
		}
		// So few entries are read faster than the other indexes are counted.
		if least <= entriesFew {
			break
		}
	}
	return c, nil
}

// take makes branches the choice. There is at least one. The slices are shared with branches, which must not be
// changed.
func (c *Choice) take(branches []Branch) {
	c.Index, c.Terms, c.Union = branches[0].Index, branches[0].Terms, branches[1:]
}

package restriction

import (
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
)

// Choice is the index that finds the rows of a statement. It belongs to one execution, because the terms depend on
// bound values. The zero Choice means that no index is used.
type Choice struct {
	Index *schema.Index // nil if there is none
	// Terms contains the intervals of terms to search, ascending and disjoint. Without an interval, no row matches.
	// The caller must still evaluate WHERE on the rows found.
	Terms []row.Slice
	// Union contains the other branches of an OR: rows that match a term of any branch are found.
	Union []Branch
	// Counted contains the indexes whose entries were counted for the choice. It is empty if there was only one
	// candidate.
	Counted []Counted
}

// Counted is the number of index entries that a statement would examine. It is an upper bound of the matching rows,
// because an entry may belong to an old version of its row. EXPLAIN shows it to explain the choice.
type Counted struct {
	Index   *schema.Index
	Entries int
	More    bool // counting ended at Entries
}

// EntryCounter counts the entries of an index in intervals of terms, up to most. ok is false if the entries cannot be
// counted. It counts on this node only and must be cheap, because it runs before every execution of a plan with
// several candidates. It may read stale data, because the numbers only rank the indexes.
type EntryCounter func(ix *schema.Index, terms []row.Slice, most int) (n int, ok bool)

// ChooseIndex chooses one of the indexes that can find the rows. It prefers the index with the fewest entries
// according to count. If the numbers are equal or count is nil, it prefers the kind of restriction that is expected
// to select the fewest rows. The error is an error in the values of the expected best index. An empty list of Terms
// means that no row can match, even if another index would find rows, since all relations must hold. The choice may
// differ between pages of a result, so paging positions refer to token order and not to an index.
func (rs *Set) ChooseIndex(s *term.Scope, count EntryCounter) (c Choice, err error) {
	if len(rs.candidates) == 0 {
		return c, nil
	}
	// Evaluate the first candidate even if it is the only one, because the search needs its terms.
	first, err := rs.candidates[0].branches(s)
	c.Index = rs.candidates[0].index
	// The values are invalid, or no value satisfies the restriction.
	if err != nil || len(first) == 0 {
		return c, err
	}
	// Use the expected best candidate unless a count shows a better one.
	c.take(first)
	if len(rs.candidates) == 1 || count == nil {
		return c, nil
	}
	// Counting stops at the smallest number so far, because a candidate that reaches it is not better.
	least := entriesCounted
	for i := range rs.candidates {
		branches := first
		if i > 0 {
			if branches, err = rs.candidates[i].branches(s); err != nil || len(branches) == 0 {
				continue // Filters reports the error, if there is one
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
		// If numbers are equal, keep the candidate with the better rank.
		if n < least {
			c.take(branches)
			least = n
		}
		// Reading so few entries is cheaper than counting the other indexes.
		if least <= entriesFew {
			break
		}
	}
	return c, nil
}

// take makes branches the choice. branches must not be empty. c shares its slices, so the caller must not change
// them.
func (c *Choice) take(branches []Branch) {
	c.Index, c.Terms, c.Union = branches[0].Index, branches[0].Terms, branches[1:]
}

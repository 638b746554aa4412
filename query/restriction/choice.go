package restriction

import (
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
)

// Choice is the index by which the rows of a statement are found.
type Choice struct {
	Index *schema.Index // nil if there is none
	// Terms are the intervals of terms in which it is searched, ascending and disjoint. None means that no row matches. WHERE must
	// still be evaluated on the rows that are found.
	Terms []row.Slice
	// Counted has the indexes whose entries were counted to choose one of them. It is empty if there was nothing to choose.
	Counted []Counted
}

// Counted is how many entries of an index a statement would look at.
type Counted struct {
	Index   *schema.Index
	Entries int
	More    bool // counting ended at Entries
}

// EntryCounter counts the entries of an index in intervals of terms, at most most. It is not ok if they cannot be counted.
type EntryCounter func(ix *schema.Index, terms []row.Slice, most int) (n int, ok bool)

// ChooseIndex chooses one of the indexes that can find the rows. It prefers the one with the fewest entries by count and, if the
// numbers are equal or count is nil, the kind of restriction that is expected to select the fewest rows.
func (rs *Set) ChooseIndex(s *term.Scope, count EntryCounter) (c Choice, err error) {
	if len(rs.candidates) == 0 {
		return c, nil
	}
	c.Index = rs.candidates[0].index
	if c.Terms, err = rs.candidates[0].terms(s); err != nil || len(rs.candidates) == 1 || count == nil || len(c.Terms) == 0 {
		return c, err
	}
	least := entriesCounted
	for i := range rs.candidates {
		p, terms := &rs.candidates[i], c.Terms
		if i > 0 {
			if terms, err = p.terms(s); err != nil || len(terms) == 0 {
				continue // filters return the error, if there is one
			}
		}
		n, ok := count(p.index, terms, least)
		if !ok {
			continue
		}
		c.Counted = append(c.Counted, Counted{p.index, n, n == least})
		if n < least {
			c.Index, c.Terms, least = p.index, terms, n
		}
		if least <= entriesFew {
			break
		}
	}
	return c, nil
}

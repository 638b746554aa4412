package write

import (
	"slices"

	"cqld/schema"
)

// columnsSearched is how many columns of a columnSet are searched linearly.
const columnsSearched = 16

// columnSet is a set of columns in the order in which they were added. The zero value is empty. Nearly all statements
// have small sets, which need no map.
type columnSet struct {
	list  []*schema.Column
	index map[*schema.Column]bool // nil up to columnsSearched
}

// contains reports whether the set contains a column. It compares pointers, because all columns belong to the same
// version of the table.
func (s *columnSet) contains(c *schema.Column) bool {
	if s.index != nil {
		return s.index[c]
	}
	return slices.Contains(s.list, c)
}

// add adds a column, unless the set contains it.
func (s *columnSet) add(c *schema.Column) {
	if s.contains(c) {
		return
	}
	s.list = append(s.list, c)
	if s.index == nil && len(s.list) > columnsSearched {
		s.index = make(map[*schema.Column]bool, 2*len(s.list))
		for _, x := range s.list {
			s.index[x] = true
		}
	}
	// The index was built from the list, including its last column; add later columns here.
	if s.index != nil {
		s.index[c] = true
	}
}

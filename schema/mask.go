package schema

import (
	"bytes"
	"fmt"
	"slices"
)

// Mask is the masking function of a column: clients without the permission UNMASK see its result instead of the
// column's values. Its first parameter is the value. It is immutable. Package query/mask defines and evaluates masks.
type Mask struct {
	Function string // name of the function, without keyspace
	Keyspace string `json:",omitempty"` // of a user's function; empty means a native one
	// Args are the values of its further parameters; nil is null. Their types follow from the function and the column's
	// type.
	Args [][]byte `json:",omitempty"`
	// Types are the types of Args for a user's function, as class names.
	Types []string `json:",omitempty"`
}

// Equal reports whether m and o are the same mask; nil is no mask. Null arguments differ from empty ones.
func (m *Mask) Equal(o *Mask) bool {
	if m == nil || o == nil {
		return m == o
	}
	// bytes.Equal alone takes nil and empty values for equal.
	null := func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) }
	return m.Function == o.Function && m.Keyspace == o.Keyspace && slices.Equal(m.Types, o.Types) &&
		slices.EqualFunc(m.Args, o.Args, null)
}

// MaskChange sets the mask of a column, or removes it. The functions and their arguments were checked when the change
// was made.
type MaskChange struct {
	Column   string
	IfExists bool  // a column that does not exist is no error
	Mask     *Mask `json:",omitempty"` // nil removes the mask
}

// alterMask replaces the column with one that has another mask. t is a copy for a change.
func (t *Table) alterMask(c *MaskChange) error {
	for _, list := range [...][]*Column{t.PartitionKey, t.Clustering, t.Statics, t.Regulars} {
		for i, old := range list {
			if old.Name != c.Column {
				continue
			}
			// Seal sets Table.Masked afterwards.
			masked := *old
			masked.Mask = c.Mask
			list[i] = &masked
			return nil
		}
	}
	if c.IfExists {
		return nil
	}
	return invalidf("Column with name '%s' doesn't exist on table '%s'", c.Column, t.Name)
}

// checkMask refuses masks that no version of this program creates. Whether the function exists is not checked: decoding
// must not depend on it.
func checkMask(m *Mask) error {
	if m != nil && m.Function == "" {
		return fmt.Errorf("%w: a mask without a function", ErrFormat)
	}
	return nil
}

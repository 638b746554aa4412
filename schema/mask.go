package schema

import (
	"bytes"
	"fmt"
	"slices"
)

// Mask is the masking function of a column: clients without the permission UNMASK see its result instead of the
// column's values. The column's value is the function's first argument. A Mask is immutable. Package query/mask defines
// and evaluates masks.
type Mask struct {
	Function string // name of the function, without keyspace
	Keyspace string `json:",omitempty"` // of a user's function; empty means a native one
	// Args are the values of the function's further arguments; nil is null. Their types follow from the function and
	// the column's type.
	Args [][]byte `json:",omitempty"`
	// Types are the types of Args as class names, for a user-defined function only.
	Types []string `json:",omitempty"`
}

// Equal reports whether m and o are the same mask; nil means no mask. Null arguments differ from empty ones.
func (m *Mask) Equal(o *Mask) bool {
	if m == nil || o == nil {
		return m == o
	}
	// bytes.Equal does not distinguish nil from an empty value.
	null := func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) }
	return m.Function == o.Function && m.Keyspace == o.Keyspace && slices.Equal(m.Types, o.Types) &&
		slices.EqualFunc(m.Args, o.Args, null)
}

// MaskChange sets or removes the mask of a column. The function and its arguments were checked when the change was
// created.
type MaskChange struct {
	Column   string
	IfExists bool  // a missing column is not an error
	Mask     *Mask `json:",omitempty"` // nil removes the mask
}

// alterMask replaces the column by a copy with another mask. t is a copy for a change.
func (t *Table) alterMask(c *MaskChange) error {
	for _, list := range [...][]*Column{t.PartitionKey, t.Clustering, t.Statics, t.Regulars} {
		for i, old := range list {
			if old.Name != c.Column {
				continue
			}
			// Seal updates Table.masked.
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

// checkMask refuses masks that no version of this program creates. It does not check that the function exists, because
// decoding must not depend on that.
func checkMask(m *Mask) error {
	if m != nil && m.Function == "" {
		return fmt.Errorf("%w: a mask without a function", ErrFormat)
	}
	return nil
}

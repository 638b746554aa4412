package schema

import "cqld/types"

// Attributes are the optional properties of a column that package query stores as CQL text. They are immutable. An
// empty text means that the column does not have the property; a column without any has nil Attributes.
type Attributes struct {
	// Check is text, so this package does not depend on the language of constraints.
	Check   string `json:",omitempty"` // the constraints, without the word CHECK
	Default string `json:",omitempty"` // the term of DEFAULT
	Comment string `json:",omitempty"` // of COMMENT ON COLUMN
	Label   string `json:",omitempty"` // of SECURITY LABEL ON COLUMN
}

// Equal reports whether a and o are equal; nil means no attributes. Empty Attributes do not occur.
func (a *Attributes) Equal(o *Attributes) bool {
	if a == nil || o == nil {
		return a == o
	}
	return *a == *o
}

// CheckText returns the constraints of a column, or an empty string.
func (c *Column) CheckText() string {
	if c.Attributes == nil {
		return ""
	}
	return c.Attributes.Check
}

// DefaultText returns the term that INSERT assigns to the column if the statement does not, or an empty string.
func (c *Column) DefaultText() string {
	if c.Attributes == nil {
		return ""
	}
	return c.Attributes.Default
}

// Comment returns the comment on a column, or an empty string.
func (c *Column) Comment() string {
	if c.Attributes == nil {
		return ""
	}
	return c.Attributes.Comment
}

// Label returns the security label of a column, or an empty string.
func (c *Column) Label() string {
	if c.Attributes == nil {
		return ""
	}
	return c.Attributes.Label
}

// AttributesChange sets the attributes that are not nil; an empty text removes one. Check and Default contain CQL.
type AttributesChange struct {
	Column   string
	IfExists bool    // a missing column is not an error
	Check    *string `json:",omitempty"`
	Default  *string `json:",omitempty"`
	Comment  *string `json:",omitempty"`
	Label    *string `json:",omitempty"`
}

// alterAttributes replaces the column by a copy with the new attributes, because columns are shared. t is a copy for a
// change.
func (t *Table) alterAttributes(c *AttributesChange) error {
	for _, list := range [...][]*Column{t.PartitionKey, t.Clustering, t.Statics, t.Regulars} {
		for i, old := range list {
			if old.Name != c.Column {
				continue
			}
			// The old attributes are shared with the previous version of the column.
			changed := *old
			changed.Attributes = c.apply(old.Attributes)
			list[i] = &changed
			return nil
		}
	}
	if c.IfExists {
		return nil
	}
	return invalidf("Column '%s' doesn't exist", c.Column)
}

// apply returns old with the changes of c, or nil if no attribute is left.
func (c *AttributesChange) apply(old *Attributes) *Attributes {
	var a Attributes
	if old != nil {
		a = *old
	}
	// Each new value is paired with its field.
	for _, x := range [...]struct{ set, field *string }{{c.Check, &a.Check}, {c.Default, &a.Default},
		{c.Comment, &a.Comment}, {c.Label, &a.Label}} {
		if x.set != nil {
			*x.field = *x.set
		}
	}
	// A column that lost its last attribute must equal one that never had any.
	if a == (Attributes{}) {
		return nil
	}
	return &a
}

// Constrainable reports whether columns of type t can have CHECK constraints. As in Cassandra 6, multi-cell columns,
// tuples and user-defined types cannot.
func Constrainable(t *types.Type) bool {
	return !t.MultiCell() && t.Kind() != types.UDT && t.Kind() != types.Tuple
}

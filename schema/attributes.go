package schema

import "cqld/types"

// Attributes are the optional properties of a column that package query stores as CQL text. They are immutable. An
// empty text means that the column does not have the property; a column without any has nil Attributes.
type Attributes struct {
	// Check is stored as text, so that this package does not depend on the language of constraints.
	Check   string `json:",omitempty"` // the constraints, without the word CHECK
	Default string `json:",omitempty"` // the term of DEFAULT
	Comment string `json:",omitempty"` // of COMMENT ON COLUMN
	Label   string `json:",omitempty"` // of SECURITY LABEL ON COLUMN
}

// Equal reports whether a and o are equal; nil has no attributes. Pointers to empty attributes do not occur.
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

// DefaultText returns the term that INSERT assigns to a column that it does not name, or an empty string.
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

// AttributesChange sets those attributes of a column that are not nil; an empty text removes one. Check and Default
// contain CQL.
type AttributesChange struct {
	Column   string
	IfExists bool    // a column that does not exist is no error
	Check    *string `json:",omitempty"`
	Default  *string `json:",omitempty"`
	Comment  *string `json:",omitempty"`
	Label    *string `json:",omitempty"`
}

// alterAttributes replaces the column with one that has other attributes. t is a copy for a change: columns are shared,
// so that they are never written.
func (t *Table) alterAttributes(c *AttributesChange) error {
	for _, list := range [...][]*Column{t.PartitionKey, t.Clustering, t.Statics, t.Regulars} {
		for i, old := range list {
			if old.Name != c.Column {
				continue
			}
			// apply returns new attributes: the old ones are shared with the previous version of the column.
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

// apply returns old with the attributes of c, or nil if none is left.
func (c *AttributesChange) apply(old *Attributes) *Attributes {
	var a Attributes
	if old != nil {
		a = *old
	}
	// Pairs of a new value and its place.
	for _, x := range [...]struct{ set, field *string }{{c.Check, &a.Check}, {c.Default, &a.Default},
		{c.Comment, &a.Comment}, {c.Label, &a.Label}} {
		if x.set != nil {
			*x.field = *x.set
		}
	}
	// Without this, a column that lost its last attribute would differ from one that never had any.
	if a == (Attributes{}) {
		return nil
	}
	return &a
}

// Constrainable reports whether CHECK is possible on a column of a type. It is not on columns of several cells, and not
// on tuples and user-defined types, as in Cassandra 6.
func Constrainable(t *types.Type) bool {
	return !t.MultiCell() && t.Kind() != types.UDT && t.Kind() != types.Tuple
}

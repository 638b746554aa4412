package snapshot

import (
	"fmt"
	"slices"

	"cqld/row"
	"cqld/schema"
)

// Column is a column of a table as its values are stored.
type Column struct {
	Name     string          `json:"name"`
	ID       schema.ColumnID `json:"id"` // of cells in rows
	Kind     string          `json:"kind"`
	Position int             `json:"position"` // within the partition key or the clustering; otherwise -1
	// Type has tuples in place of user types, which may change later.
	Type       string `json:"type"`
	MultiCell  bool   `json:"multi_cell,omitempty"`
	Descending bool   `json:"descending,omitempty"`
	// Dropped is the time (µs) when a column with this name was last dropped. Cells written up to then do not belong to
	// the column. Zero means never.
	Dropped int64 `json:"dropped_micros,omitempty"`
}

// ColumnsOf returns the stored columns of a table, key columns first and in their order.
func ColumnsOf(t *schema.Table) []Column {
	out := make([]Column, 0, len(t.StoredColumns()))
	for _, c := range t.StoredColumns() {
		out = append(out, Column{Name: c.Name, ID: c.ID, Kind: c.Kind.String(), Position: c.Position,
			Type: schema.ExpandUserTypes(c.Type).String(), MultiCell: c.Type.MultiCell(), Descending: c.Desc,
			Dropped: c.DroppedMicros})
	}
	return out
}

// key reports whether the values of the column are parts of keys.
func (c *Column) key() bool { return c.Position >= 0 }

// same reports whether values of one column are values of the other.
func (c *Column) same(o *Column) bool {
	return c.Kind == o.Kind && c.Position == o.Position && c.Type == o.Type && c.MultiCell == o.MultiCell &&
		c.Descending == o.Descending
}

// String describes the column for an error.
func (c *Column) String() string {
	text := c.Kind + " " + c.Name + " " + c.Type
	if c.Descending {
		text += " DESC"
	}
	return text
}

// ColumnMap maps the ids of columns in the rows of a snapshot to columns of another table. Ids that are missing belong
// to columns that were dropped before the snapshot.
type ColumnMap map[schema.ColumnID]target

// target is a column of the other table. Cells with timestamps up to after were written before the column of the
// snapshot was dropped and added again.
type target struct {
	id    schema.ColumnID
	after int64
}

// MapColumns maps the columns from of a table of a snapshot to the columns to of a table. Key columns correspond by
// their positions, and may have other names: RENAME changes nothing that is stored. Other columns correspond by their
// names. The table may have more columns. The error names the first column that does not fit.
func MapColumns(from, to []Column) (ColumnMap, error) {
	m := ColumnMap{}
	keys := func(columns []Column) (out []Column) {
		return slices.DeleteFunc(slices.Clone(columns), func(c Column) bool { return !c.key() })
	}
	own := keys(to)
	if theirs := keys(from); len(theirs) != len(own) {
		return nil, fmt.Errorf("the primary key of the snapshot has %d columns, the primary key of the table %d",
			len(theirs), len(own))
	}
	for i := range from {
		c := &from[i]
		at := slices.IndexFunc(to, func(o Column) bool {
			if c.key() {
				return o.Kind == c.Kind && o.Position == c.Position
			}
			return !o.key() && o.Name == c.Name
		})
		if at < 0 {
			return nil, fmt.Errorf("the table lacks the column %s of the snapshot", c)
		}
		if !c.same(&to[at]) {
			return nil, fmt.Errorf("the column %s of the snapshot does not fit the column %s of the table", c, &to[at])
		}
		after := int64(row.NoTimestamp)
		if c.Dropped != 0 {
			after = c.Dropped
		}
		m[c.ID] = target{to[at].ID, after}
	}
	return m, nil
}

// Identical reports whether Apply changes no row, if no column of the snapshot's table was ever dropped.
func (m ColumnMap) Identical() bool {
	for id, to := range m {
		if to.id != id || to.after != row.NoTimestamp {
			return false
		}
	}
	return true
}

// Apply changes the columns of a row of the snapshot, which may be empty then: cells of dropped columns are removed.
func (m ColumnMap) Apply(r *row.Row) {
	cells := r.Cells[:0]
	for _, c := range r.Cells {
		if t, ok := m[c.Column]; ok && c.Timestamp > t.after {
			c.Column = t.id
			cells = append(cells, c)
		}
	}
	r.Cells = cells
	deletions := r.Complex[:0]
	for _, d := range r.Complex {
		if t, ok := m[d.Column]; ok && d.Timestamp > t.after {
			d.Column = t.id
			deletions = append(deletions, d)
		}
	}
	r.Complex = deletions
	// The numbers may be in another order.
	r.Sort()
}

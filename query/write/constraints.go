package write

import (
	"slices"

	"cqld/cql"
	"cqld/query/constraint"
	"cqld/query/restriction"
	"cqld/row"
	"cqld/schema"
)

// constraints compiles the constraints of the table's columns. It refuses an INSERT or UPDATE that leaves out a column
// with a NOT NULL constraint: the values are only known at execution, but the columns are not.
func (c *compiler) constraints(m *Modification) error {
	for _, col := range c.Table.Columns() {
		// nil if the column has none.
		check, err := constraint.Compile(col)
		if err != nil {
			return err
		}
		switch {
		case check == nil:
		case check.Required() && !m.names(col):
			return check.Missing()
		// The values of key columns come from WHERE or VALUES, not from operations.
		case col.Kind == schema.PartitionKey || col.Kind == schema.Clustering:
			m.keyChecks = append(m.keyChecks, check)
		default:
			m.checks = append(m.checks, check)
		}
	}
	return nil
}

// names reports whether an INSERT or UPDATE assigns the column. INSERT JSON assigns all columns, and deletions need not
// name one.
func (m *Modification) names(col *schema.Column) bool {
	assigns := func(o operation) bool { return o.Column() == col }
	return m.kind == restriction.Delete || m.json != nil || slices.ContainsFunc(m.regular, assigns) ||
		slices.ContainsFunc(m.static, assigns)
}

// checkKeys evaluates the constraints on the key columns of the rows that m writes. Deletions may have any key, so that
// rows from before the constraint can be removed.
func (w *writing) checkKeys(m *Modification) error {
	if m.kind == restriction.Delete {
		return nil
	}
	for _, check := range m.keyChecks {
		// IN gives several values of one column; each must satisfy the constraint.
		values, err := m.where.KeyValues(&w.Scope, check.Column())
		if err != nil {
			return err
		}
		for _, v := range values {
			if err := check.Value(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRow evaluates the constraints on the static or regular columns of a row that m writes, after its operations have
// added their cells. A column without a cell in the row keeps its value.
func (w *writing) checkRow(m *Modification, kind schema.ColumnKind) error {
	for _, check := range m.checks {
		col := check.Column()
		if col.Kind != kind {
			continue
		}
		// A constrained column has one cell (schema.Constrainable).
		at := slices.IndexFunc(w.row.Cells, func(c row.Cell) bool { return c.Column == col.ID })
		switch {
		// Deleting a column makes it null, which only NOT NULL forbids. Deleting the whole row is always allowed.
		case m.kind == restriction.Delete:
			if at >= 0 && check.Required() {
				return check.Deleted()
			}
		// The statement names the column, but its value is unset.
		case at < 0 && check.Required():
			return check.Missing()
		case at < 0:
		// the object need not name it
		// INSERT JSON sets a static column that its object does not name to null. Only NOT NULL refuses that.
		case w.row.Cells[at].Tombstone && m.json != nil && kind == schema.Static && !check.Required():
		// A tombstone is null.
		case w.row.Cells[at].Tombstone:
			return check.Value(nil)
		default:
			if err := check.Value(w.row.Cells[at].Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// defaults assigns the defaults of columns that an INSERT does not name. names are the columns that it names. An INSERT
// of static columns only writes no row, and gets none, except for the partition key. Values of key columns are added to
// keys, others become operations of m.
func (c *compiler) defaults(m *Modification, names []string, keys keyTerms) error {
	onlyStatic := len(m.static) > 0 && len(m.regular) == 0 &&
		!slices.ContainsFunc(c.Table.Clustering, func(col *schema.Column) bool { return keys[col] != nil })
	for _, col := range c.Table.Columns() {
		text := col.DefaultText()
		// A column that is named keeps its value, even if that is null or unset.
		if text == "" || slices.Contains(names, col.Name) || onlyStatic && col.Kind != schema.PartitionKey {
			continue
		}
		// The text was checked when the table was defined. It is parsed here so that functions in it, for example
		// now(), are evaluated for each execution.
		value, err := cql.ParseTerm(text)
		if err != nil {
			return err
		}
		t, err := c.ColumnTerm(value, col)
		if err != nil {
			return err
		}
		// Only regular and key columns have defaults here: a static one would overwrite the value that other rows
		// share.
		if col.Kind == schema.Regular {
			m.addOperation(setOperation(col, t))
		} else {
			keys[col] = t
		}
	}
	return nil
}

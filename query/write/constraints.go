package write

import (
	"slices"

	"cqld/cql"
	"cqld/query/constraint"
	"cqld/query/restriction"
	"cqld/row"
	"cqld/schema"
)

// constraints compiles the constraints of the table's columns. It rejects an INSERT or UPDATE that omits a NOT NULL
// column. Values are checked at execution.
func (c *compiler) constraints(m *Modification) error {
	for _, col := range c.Table.Columns() {
		// check is nil if the column has no constraints.
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

// checkKeys evaluates the constraints on the key columns of the rows that m writes. Deletions are not checked, so
// that clients can remove rows from before the constraint.
func (w *writing) checkKeys(m *Modification) error {
	if m.kind == restriction.Delete {
		return nil
	}
	for _, check := range m.keyChecks {
		// IN gives several values for a column; each must satisfy the constraint.
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
		// Deleting a column sets it to null, which only NOT NULL forbids. Deleting a whole row is always allowed.
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
		// A tombstone means null.
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

// defaults assigns the defaults of columns that an INSERT does not name. names contains the columns that the INSERT
// names. An INSERT of static columns only writes no row, so it gets defaults for the partition key only. Values of
// key columns are added to keys; others become operations of m.
func (c *compiler) defaults(m *Modification, names []string, keys keyTerms) error {
	onlyStatic := len(m.static) > 0 && len(m.regular) == 0 &&
		!slices.ContainsFunc(c.Table.Clustering, func(col *schema.Column) bool { return keys[col] != nil })
	for _, col := range c.Table.Columns() {
		text := col.DefaultText()
		// A column that is named keeps its value, even if that is null or unset.
		if text == "" || slices.Contains(names, col.Name) || onlyStatic && col.Kind != schema.PartitionKey {
			continue
		}
		// The text was validated when the table was defined. Parse it for each statement, so that functions in it,
		// such as now(), are evaluated for each execution.
		value, err := cql.ParseTerm(text)
		if err != nil {
			return err
		}
		t, err := c.ColumnTerm(value, col)
		if err != nil {
			return err
		}
		// A default of a static column does not apply, because it would overwrite the value that all rows share.
		if col.Kind == schema.Regular {
			m.addOperation(setOperation(col, t))
		} else {
			keys[col] = t
		}
	}
	return nil
}

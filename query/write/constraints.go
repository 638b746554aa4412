package write

import (
	"slices"

	"cqld/cql"
	"cqld/query/constraint"
	"cqld/query/restriction"
	"cqld/row"
	"cqld/schema"
)

// constraints compiles the constraints of the table's columns.
func (c *compiler) constraints(m *Modification) error {
	for _, col := range c.Table.Columns() {
		check, err := constraint.Compile(col)
		if err != nil {
			return err
		}
		switch {
		case check == nil:
		case check.Required() && !m.names(col):
			return check.Missing()
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

// checkKeys evaluates the constraints on the key columns of the rows that m writes. Deletions may have any key.
func (w *writing) checkKeys(m *Modification) error {
	if m.kind == restriction.Delete {
		return nil
	}
	for _, check := range m.keyChecks {
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

// checkRow evaluates the constraints on the static or regular columns of a row that m writes.
func (w *writing) checkRow(m *Modification, kind schema.ColumnKind) error {
	for _, check := range m.checks {
		col := check.Column()
		if col.Kind != kind {
			continue
		}
		at := slices.IndexFunc(w.row.Cells, func(c row.Cell) bool { return c.Column == col.ID })
		switch {
		case m.kind == restriction.Delete:
			if at >= 0 && check.Required() {
				return check.Deleted()
			}
		case at < 0 && check.Required():
			return check.Missing()
		case at < 0:
		// the object need not name it
		case w.row.Cells[at].Tombstone && m.json != nil && kind == schema.Static && !check.Required():
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

// defaults assigns the defaults of columns that an INSERT does not name. An INSERT of static columns only writes no
// row, and gets none.
func (c *compiler) defaults(m *Modification, names []string, keys keyTerms) error {
	onlyStatic := len(m.static) > 0 && len(m.regular) == 0 &&
		!slices.ContainsFunc(c.Table.Clustering, func(col *schema.Column) bool { return keys[col] != nil })
	for _, col := range c.Table.Columns() {
		text := col.DefaultText()
		if text == "" || slices.Contains(names, col.Name) || onlyStatic && col.Kind != schema.PartitionKey {
			continue
		}
		value, err := cql.ParseTerm(text)
		if err != nil {
			return err
		}
		t, err := c.ColumnTerm(value, col)
		if err != nil {
			return err
		}
		if col.Kind == schema.Regular {
			m.addOperation(setOperation(col, t))
		} else {
			keys[col] = t
		}
	}
	return nil
}

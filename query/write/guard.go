package write

import (
	"cqld/internal/wire"
	"cqld/query/guardrail"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// guardWrite applies the guardrails on one statement that writes: on timestamps of clients, and on operations that
// must read a list. They do not depend on values, but the operator may change them after a statement was prepared.
func guardWrite(g *guardrail.Guard, m *Modification) error {
	if m.timestamp != nil {
		if err := guardTimestamp(g); err != nil {
			return err
		}
	}
	// Check all operations, because a statement may change several lists.
	for _, list := range [][]operation{m.static, m.regular} {
		for _, o := range list {
			if feature := listRead(o); feature != "" {
				if err := g.EnabledFor(guardrail.ReadBeforeWriteLists, feature); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// guardTimestamp applies the guardrail on timestamps of clients to USING TIMESTAMP of a statement or of a batch. nil
// means that the client is not bound.
func guardTimestamp(g *guardrail.Guard) error {
	if g == nil {
		return nil
	}
	return g.Enabled(guardrail.UserTimestamps)
}

// guardWrites applies the guardrails on the statements of a batch, and on the consistency level of writes. Superusers
// have no guard.
func (writer *Writer) guardWrites(r *request.Request, together ...*Modification) error {
	g := writer.o.DataGuard(r)
	if g == nil {
		return nil
	}
	for _, m := range together {
		if err := guardWrite(g, m); err != nil {
			return err
		}
	}
	// Check the level once for the request. Permitted adds warnings to r, so only the error matters here.
	_, err := g.Permitted(guardrail.WriteConsistency, r.Consistency.String())
	return err
}

// guardRow applies the guardrails on values, and the bound of legacy indexes, to the row that m writes. kind is
// schema.Static for the static row, else schema.Regular. It is called for each row, after its constraints.
func (w *writing) guardRow(m *Modification, key row.PartitionKey, kind schema.ColumnKind) error {
	// begin sets guard only if a guardrail bounds values.
	if w.guard != nil {
		operations := m.regular
		if kind == schema.Static {
			operations = m.static
		}
		if err := guardCells(w.guard, m.table, operations, &w.row); err != nil {
			return err
		}
	}
	if err := checkIndexed(m.table, kind, &w.row); err != nil {
		return err
	}
	// Terms are bounded for storage-attached indexes only, and only if the guardrail is configured.
	if !w.writer.o.Guardrails.BoundsTerms(m.table) {
		return nil
	}
	return w.writer.o.Guard(w.request).Terms(m.table, key.Bytes, kind, &w.row, w.Now)
}

// guardCells applies the guardrails on values and collections to the cells that operations write to one row. As in
// Cassandra, the size of one element that is set is not the size of a collection. Sizes are bytes in wire form.
//
// It measures the change and not the stored collection, so repeated additions to a set pass.
func guardCells(g *guardrail.Guard, t *schema.Table, operations []operation, r *row.Row) error {
	type collection struct{ items, bytes int64 }
	collections := map[*schema.Column]*collection{}
	// Collections are reported in the order of their first cells: a map's order would make the warnings random.
	var order []*schema.Column
	// elements contains the columns of which single elements are set.
	var elements columnSet
	for _, o := range operations {
		if setsElement(o) {
			elements.add(o.Column())
		}
	}
	for i := range r.Cells {
		cell := &r.Cells[i]
		col := t.ColumnByID(cell.Column)
		// Deletions have no size.
		if col == nil || cell.Tombstone {
			continue
		}
		path := pathBytes(col, cell.Path)
		// Both come from the client: the bound applies to the key of a map as well as to its value.
		for _, n := range [...]int64{path, int64(len(cell.Value))} {
			if err := g.Within(guardrail.ColumnValueSize, n, col.Name); err != nil {
				return err
			}
		}
		// An assignment of one element does not show the size of the collection. If a statement contains one, do not
		// measure the collection.
		if !col.Type.Kind().IsCollection() || elements.contains(col) {
			continue
		}
		c := collections[col]
		if c == nil {
			c = new(collection)
			collections[col] = c
			order = append(order, col)
		}
		// A frozen collection is one cell with all elements.
		if !col.Type.MultiCell() {
			c.items, c.bytes = frozenItems(cell.Value), int64(len(cell.Value))
			continue
		}
		c.items++
		c.bytes += path + int64(len(cell.Value)) + cellOverhead
	}
	// Check collections after all cells, because errors of values come first.
	for _, col := range order {
		if err := g.Within(guardrail.ItemsPerCollection, collections[col].items, col.Name); err != nil {
			return err
		}
		if err := g.Within(guardrail.CollectionSize, collections[col].bytes, col.Name); err != nil {
			return err
		}
	}
	return nil
}

// cellOverhead is the size in bytes of a cell without its path and value, as Cassandra counts it: its timestamp, TTL
// and time of deletion.
const cellOverhead = 20

// pathBytes returns the size in bytes, in wire form, of the path of a cell. A cell that is not an element has none.
func pathBytes(col *schema.Column, path []byte) int64 {
	switch kind := col.Type.Kind(); {
	case path == nil:
		return 0
	case kind == types.List:
		return 16 // a time UUID
	case kind == types.Set || kind == types.Map:
		if v, _, err := col.Type.Elems()[0].ConsumeOrdered(nil, path, false); err == nil {
			return int64(len(v))
		}
	}
	// A field of a user-defined type, or a path that cannot be decoded.
	return int64(len(path))
}

// frozenItems returns the number of elements of a frozen collection. The value has been validated; an empty one has
// none.
func frozenItems(b []byte) int64 {
	if len(b) < 4 {
		return 0
	}
	c := wire.NewCursor(b)
	return int64(c.Int32())
}

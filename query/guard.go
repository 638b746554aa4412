package query

import (
	"slices"

	"cqld/internal/wire"
	"cqld/query/guardrail"
	"cqld/query/operation"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// ordinary reports whether the client logged in and is not a superuser.
func (p *Processor) ordinary(r *request.Request) bool {
	name := r.Principal.Name
	return name != "" && p.o.IsSuperuser != nil && !p.o.IsSuperuser(name)
}

// guard returns the guard of a request, or nil if guardrails do not bind it.
func (p *Processor) guard(r *request.Request) *guardrail.Guard {
	name := r.Principal.Name
	if p.o.Guardrails == nil || name != "" && p.o.IsSuperuser != nil && p.o.IsSuperuser(name) {
		return nil
	}
	return &guardrail.Guard{Guardrails: p.o.Guardrails, Anonymous: name == "", Warnings: &r.Warnings}
}

// dataGuard is guard for statements that read or write data. Most configurations bound none of these.
func (p *Processor) dataGuard(r *request.Request) *guardrail.Guard {
	if p.o.Guardrails == nil || !p.boundsData {
		return nil
	}
	return p.guard(r)
}

// guardWrite applies the guardrails on one statement that writes.
func guardWrite(g *guardrail.Guard, m *modification) error {
	if m.timestamp != nil {
		if err := g.Enabled(guardrail.UserTimestamps); err != nil {
			return definitionError(err)
		}
	}
	for _, list := range [][]operation.Operation{m.static, m.regular} {
		for _, o := range list {
			if feature := operation.ListRead(o); feature != "" {
				if err := g.EnabledFor(guardrail.ReadBeforeWriteLists, feature); err != nil {
					return definitionError(err)
				}
			}
		}
	}
	return nil
}

// guardWrites applies the guardrails on statements that write together, and on their consistency.
func (p *Processor) guardWrites(r *request.Request, together ...*modification) error {
	g := p.dataGuard(r)
	if g == nil {
		return nil
	}
	for _, m := range together {
		if err := guardWrite(g, m); err != nil {
			return err
		}
	}
	_, err := g.Permitted(guardrail.WriteConsistency, r.Consistency.String())
	return definitionError(err)
}

// guardRead applies the guardrails on a SELECT, before its WHERE is evaluated.
func (run *selectRun) guardRead(r *request.Request) error {
	g := run.guard
	if g == nil {
		return nil
	}
	if run.plan.grouped {
		if err := g.Enabled(guardrail.GroupBy); err != nil {
			return definitionError(err)
		}
	}
	if where := run.plan.where; where.KeyRange && (where.Index() != nil || run.plan.near != nil) {
		if err := g.Enabled(guardrail.NonPartitionRestrictedIndexQuery); err != nil {
			return definitionError(err)
		}
	}
	if run.plan.allowFiltering {
		if err := g.Enabled(guardrail.AllowFiltering); err != nil {
			return definitionError(err)
		}
	}
	_, err := g.Permitted(guardrail.ReadConsistency, r.Consistency.String())
	return definitionError(err)
}

// guardIntersection applies the guardrail on filters by several columns, where a read has more than one replica and compares them.
func (run *selectRun) guardIntersection(r *request.Request) error {
	if run.p.o.Guardrails == nil || r.Consistency == ring.One || r.Consistency == ring.LocalOne || !run.plan.where.Intersects() {
		return nil
	}
	k := run.p.o.View.Schema().Keyspace(run.plan.table.Keyspace)
	if k == nil || k.Replication.Total() < 2 {
		return nil
	}
	return definitionError(run.p.guard(r).Intersection())
}

// guardKeys applies the guardrails on the keys and slices that WHERE selects, and on the size of pages.
func (run *selectRun) guardKeys(keys, slices, pageSize int) error {
	g, table := run.guard, run.plan.table.Name
	if g == nil {
		return nil
	}
	check := func(t guardrail.Threshold, n int, what string) error { return g.Within(t, int64(n), what) }
	err := check(guardrail.PartitionKeysInSelect, keys, table)
	if err == nil && keys > 1 {
		err = check(guardrail.InSelectProduct, keys, "partition key")
	}
	if err == nil && slices > 1 {
		err = check(guardrail.InSelectProduct, slices, "clustering key")
	}
	if err == nil && !run.plan.single {
		err = check(guardrail.PageSize, pageSize, table)
	}
	return definitionError(err)
}

// guardRow applies the guardrails on values to the static or regular row that m writes.
func (w *write) guardRow(m *modification, key row.PartitionKey, kind schema.ColumnKind) error {
	if w.guard != nil {
		operations := m.regular
		if kind == schema.Static {
			operations = m.static
		}
		if err := guardCells(w.guard, m.table, operations, &w.row); err != nil {
			return err
		}
	}
	if !w.p.o.Guardrails.BoundsTerms(m.table) {
		return nil
	}
	return definitionError(w.p.guard(w.request).Terms(m.table, key.Bytes, kind, &w.row, w.Now))
}

// guardCells applies the guardrails on values and collections to the cells that operations write to one row. As in Cassandra, the size
// of a collection is not that of one element that is set.
func guardCells(g *guardrail.Guard, t *schema.Table, operations []operation.Operation, r *row.Row) error {
	type collection struct{ items, bytes int64 }
	collections := map[*schema.Column]*collection{}
	var order []*schema.Column
	for i := range r.Cells {
		cell := &r.Cells[i]
		col := t.ColumnByID(cell.Column)
		if col == nil || cell.Tombstone {
			continue
		}
		path := pathBytes(col, cell.Path)
		for _, n := range [...]int64{path, int64(len(cell.Value))} {
			if err := g.Within(guardrail.ColumnValueSize, n, col.Name); err != nil {
				return definitionError(err)
			}
		}
		if !col.Type.IsCollection() || slices.ContainsFunc(operations, func(o operation.Operation) bool { return o.Column() == col && operation.SetsElement(o) }) {
			continue
		}
		c := collections[col]
		if c == nil {
			c = new(collection)
			collections[col] = c
			order = append(order, col)
		}
		if !col.Type.MultiCell() {
			c.items, c.bytes = frozenItems(cell.Value), int64(len(cell.Value))
			continue
		}
		c.items++
		c.bytes += path + int64(len(cell.Value)) + cellOverhead
	}
	for _, col := range order {
		if err := g.Within(guardrail.ItemsPerCollection, collections[col].items, col.Name); err != nil {
			return definitionError(err)
		}
		if err := g.Within(guardrail.CollectionSize, collections[col].bytes, col.Name); err != nil {
			return definitionError(err)
		}
	}
	return nil
}

// cellOverhead is the size of a cell without its path and value, as Cassandra counts it: its timestamp, TTL and time of deletion.
const cellOverhead = 20

// pathBytes returns the size in wire form of the path of a cell.
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
	return int64(len(path))
}

// frozenItems returns the number of elements of a frozen collection.
func frozenItems(b []byte) int64 {
	if len(b) < 4 {
		return 0
	}
	c := wire.NewCursor(b)
	return int64(c.Int32())
}

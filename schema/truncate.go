package schema

import (
	"slices"

	"cqld/schema/refused"
)

// TruncateTable empties a table: the table, its indexes and its views get new numbers in storage, under which nothing
// is stored. A retained table has the former numbers, and therefore the rows. Clients see the same table as before.
//
//	before                     after
//	orders   id A   1024       orders              id A   1031
//	                           retained: orders    id B   1024     UNDROP TABLE orders AS …
type TruncateTable struct {
	Keyspace string
	Table    string
	// Rows is the number of the table with the rows. If the table has another number, another statement has truncated
	// it since this change was planned, and the change has no effect.
	Rows StorageID
	// Kept is the identifier of the retained table. No other table has it.
	Kept UUID
	// Retention is about the rows. Apply sets Truncated.
	Retention Retention
}

func (*TruncateTable) change() {}

const (
	// truncationsOfTable bounds the truncated rows of one table that are retained: programs that truncate a table all
	// the time must not fill the disks.
	truncationsOfTable = 3
	// truncationsMax bounds the truncated rows of all tables, so that most of retainedMax is left for tables that were
	// dropped.
	truncationsMax = 64
)

// applyTruncateTable exchanges the numbers of a table for new ones, and retains a table with the former numbers.
func applyTruncateTable(s *Schema, c *TruncateTable) (*Schema, error) {
	k := s.keyspaces[c.Keyspace]
	if k == nil || k.tables[c.Table] == nil {
		return nil, &refused.NotFound{Keyspace: c.Keyspace, Name: c.Table}
	}
	t := k.tables[c.Table]
	switch {
	case t.View != nil:
		return nil, invalidf("Cannot TRUNCATE materialized view directly; must truncate base table instead")
	case IsSystem(c.Keyspace):
		return nil, invalidf("The truncated rows of table '%s.%s' cannot be retained", c.Keyspace, c.Table)
	case t.StorageID != c.Rows:
		return s, nil
	case s.tableByID(c.Kept) != nil:
		return nil, invalidf("Table id %s is in use", c.Kept)
	}
	retention := c.Retention
	retention.Truncated = t.ID
	kept := t.copyForChange()
	kept.ID, kept.Retention, kept.views = c.Kept, &retention, nil
	// Numbers of columns stay: cells of both tables have them.
	next := s.nextStorage
	number := func() StorageID { next++; return next - 1 }
	empty := t.copyForChange()
	empty.StorageID = number()
	for i, old := range t.indexes {
		ix := *old
		ix.ID, empty.indexes[i] = number(), &ix
	}
	now := k.withTable(empty.Seal())
	for _, v := range t.views {
		// Views share their definitions with other schemas: both are copied.
		view, definition := v.copyForChange(), *v.View
		view.View, view.StorageID = &definition, number()
		view.follow(empty)
		now.tables[view.Name], now.ordered = view, false
	}
	// A copy: other schemas share the list.
	now.retained = append(slices.Clone(k.retained), kept.Seal())
	return s.withNext(now, next).boundTruncations(now, t.ID).boundRetained(), nil
}

// boundTruncations returns s without the truncated rows beyond truncationsOfTable, for a table of k that was truncated,
// and beyond truncationsMax. The newest stay.
func (s *Schema) boundTruncations(k *Keyspace, table UUID) *Schema {
	gone := map[StorageID]int64{}
	// beyond adds the truncated rows before the last n.
	beyond := func(retained []*Table, n int, of func(UUID) bool) {
		for _, t := range slices.Backward(retained) {
			if !of(t.Retention.Truncated) {
				continue
			}
			if n--; n < 0 {
				gone[t.StorageID] = t.Retention.Until
			}
		}
	}
	// In the order of the changes: the clocks of nodes, which give the times, may differ.
	beyond(k.retained, truncationsOfTable, func(id UUID) bool { return id == table })
	beyond(s.Retained(), truncationsMax, func(id UUID) bool { return id != UUID{} })
	return s.withoutRetained(gone)
}

// sameTable reports whether clients know both tables as one: the same table, or the table before a TRUNCATE and after
// it, which has another number in storage.
func sameTable(a, b *Table) bool {
	return a.StorageID == b.StorageID || a.ID == b.ID && a.ID != UUID{}
}

// sameIndexes reports whether both tables have the same indexes. TRUNCATE changes their numbers only.
func sameIndexes(a, b *Table) bool {
	truncated := a.StorageID != b.StorageID
	return slices.EqualFunc(a.indexes, b.indexes, func(x, y *Index) bool {
		return x.Name == y.Name && x.sameExceptName(y) && (truncated || x.ID == y.ID)
	})
}

package schema

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"cqld/schema/refused"
	"cqld/types"
)

// A table that is dropped with a grace stays in the schema without its name (ADR 50): statements do not find it, and
// its name is free, but its number in storage stays. Its rows are therefore replicated, repaired and moved like all
// others, and UNDROP TABLE gives the table a name again.
//
//	DROP TABLE ──▶ retained ──▶ UNDROP TABLE: a table with the same number, rows and indexes
//	                   └──────▶ PURGE TABLE, or the end of the grace: Dropped reports its number

// Retention describes when a retained table was dropped, and until when it can be restored. Both are seconds since
// 1970, by the clock of the node that executed the statement.
type Retention struct{ Dropped, Until int64 }

// retainedMax bounds the retained tables of a schema: every node has their definitions in memory. The table that was
// dropped first is removed for another one.
const retainedMax = 256

// Retained returns the retained tables of the keyspace, in the order of their drops. Their names may be in use by
// other tables. Callers must not modify the slice.
func (k *Keyspace) Retained() []*Table { return k.retained }

// Retained returns the tables of all keyspaces that DROP TABLE has dropped and that are retained, in the order of their
// drops. Tables of a dropped keyspace are among them only if they had been dropped before it.
func (s *Schema) Retained() []*Table {
	// By name of the keyspace first, so that the order of drops in one second is the same on all nodes.
	var all []*Table
	for _, name := range s.StoredKeyspaceNames() {
		all = append(all, s.StoredKeyspace(name).retained...)
	}
	slices.SortStableFunc(all, byDrop)
	return all
}

// byDrop compares tables by the time of their drops. Tables of one second are ordered by number.
func byDrop(a, b *Table) int {
	return cmp.Or(cmp.Compare(a.Retention.Dropped, b.Retention.Dropped), cmp.Compare(a.StorageID, b.StorageID))
}

// StoredTables returns the tables of the keyspace that have rows in storage: the tables in the order of their names,
// without views, and the retained ones.
func (k *Keyspace) StoredTables() (tables []*Table) {
	// Views are computed from their base tables (ADR 38). Retained tables have no views.
	for _, t := range k.present {
		if t.View == nil {
			tables = append(tables, t)
		}
	}
	return tables
}

// withRetained returns the tables of sorted and the retained ones, by name and number.
func withRetained(sorted, retained []*Table) []*Table {
	if len(retained) == 0 {
		return sorted
	}
	// replaceTables compares two such lists in one pass.
	return slices.SortedFunc(slices.Values(slices.Concat(sorted, retained)), func(a, b *Table) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.StorageID, b.StorageID))
	})
}

// retain returns s without a table, whose data stay until the end of the grace. t has no views.
func (s *Schema) retain(k *Keyspace, t *Table, r Retention) *Schema {
	// The table itself belongs to other schemas, in which it has its name.
	kept := t.copyForChange()
	kept.Retention = &r
	c := k.withoutTable(t.Name)
	// A copy: other schemas share the list.
	c.retained = append(slices.Clone(k.retained), kept.Seal())
	return s.with(c).boundRetained()
}

// withoutRetained returns s without some retained tables, or s itself if it has none of them. gone has the end of the
// grace of each.
func (s *Schema) withoutRetained(gone map[StorageID]int64) *Schema {
	is := func(t *Table) bool {
		until, ok := gone[t.StorageID]
		return ok && until == t.Retention.Until
	}
	// Tables of several keyspaces may be removed by one change.
	keyspaces, dropped := maps.Clone(s.keyspaces), maps.Clone(s.dropped)
	changed := false
	for _, all := range [...]map[string]*Keyspace{keyspaces, dropped} {
		for name, k := range all {
			if !slices.ContainsFunc(k.retained, is) {
				continue
			}
			c := k.clone()
			c.retained = slices.DeleteFunc(slices.Clone(k.retained), is)
			c.link()
			all[name], changed = c, true
		}
	}
	if !changed {
		return s
	}
	return s.rebuiltWith(keyspaces, dropped, s.nextStorage)
}

// applyPurgeTables removes retained tables. Their numbers are not used again.
func applyPurgeTables(s *Schema, c *PurgeTables) (*Schema, error) {
	return s.withoutRetained(c.Tables), nil
}

// applyUndropTable gives a retained table a name again. Indexes whose names are in use get unused ones: a query finds
// an index by its column.
func applyUndropTable(s *Schema, c *UndropTable) (*Schema, error) {
	// A keyspace that was dropped and created again has no retained tables.
	k := s.keyspaces[c.Keyspace]
	if k == nil {
		return nil, &refused.NotFound{Keyspace: c.Keyspace}
	}
	// By number: another node may have restored it, and several tables may have had the name.
	i := slices.IndexFunc(k.retained, func(t *Table) bool { return t.StorageID == c.Table })
	if i < 0 {
		return nil, invalidf("The dropped table can no longer be restored: its grace has ended, or it was purged or " +
			"restored")
	}
	// Views share the space of names. The message says what works instead.
	dropped := k.retained[i]
	if k.tables[c.As] != nil {
		return nil, invalidf("Cannot restore table '%s.%s': another table or view has the name '%s'; restore it with "+
			"UNDROP TABLE … AS another name", k.Name, dropped.Name, c.As)
	}
	// The number, the identifier and the ids of columns stay: rows, statements and drivers know the table by them.
	t := dropped.copyForChange()
	t.Name, t.Retention = c.As, nil
	if err := updateTypes(t, k); err != nil {
		return nil, err
	}
	// Entries belong to the number of an index, so that its name may change.
	taken := k.IndexesCalled("")
	for i, old := range t.indexes {
		ix := *old
		ix.Name = unusedIndexName(old.Name, taken)
		taken[ix.Name], t.indexes[i] = true, &ix
	}
	if err := t.Seal().validate(); err != nil {
		return nil, err
	}
	next := k.withTable(t)
	next.retained = slices.Delete(slices.Clone(k.retained), i, i+1)
	return s.with(next), nil
}

// updateTypes gives the columns of a retained table the present versions of user types: statements may have altered or
// dropped types, and dropped masking functions, since no table used them. t is a copy.
func updateTypes(t *Table, k *Keyspace) error {
	for _, list := range [...][]*Column{t.PartitionKey, t.Clustering, t.Statics, t.Regulars} {
		for i, old := range list {
			// Native functions stay, and functions of other keyspaces cannot be masks.
			if m := old.Mask; m != nil && m.Keyspace != "" && !k.hasFunction(m.Function) {
				return invalidf("Cannot restore table '%s.%s': column '%s' is masked with function '%s.%s', which was "+
					"dropped", t.Keyspace, t.Name, old.Name, m.Keyspace, m.Function)
			}
			// The type as it is now may have further fields, and other names of fields.
			now, err := k.current(old.Type)
			if err != nil || !extends(now, old.Type, old.Kind == PartitionKey) {
				return invalidf("Cannot restore table '%s.%s': column '%s' has type %s, which was dropped or created "+
					"again with other fields", t.Keyspace, t.Name, old.Name, old.Type)
			}
			// Schemas share columns: a changed one is replaced.
			if now != old.Type {
				c := *old
				c.Type = now
				list[i] = &c
			}
		}
	}
	return nil
}

// hasFunction reports whether a function of the keyspace has a name, with any arguments.
func (k *Keyspace) hasFunction(name string) bool {
	for _, f := range k.functions {
		if f.Name == name {
			return true
		}
	}
	return false
}

// extends reports whether a value of then is one of now: they differ at most by names of fields, and by fields at the
// end of user types, as ALTER TYPE makes them. Partition keys are compared as bytes, so exact refuses further fields.
func extends(now, then *types.Type, exact bool) bool {
	a, b := now.Elems(), then.Elems()
	udt := now.Kind() == types.UDT
	// Types with several cells and with one are stored differently.
	if now.Kind() != then.Kind() || now.MultiCell() != then.MultiCell() || len(a) < len(b) ||
		len(a) > len(b) && (exact || !udt) {
		return false
	}
	// Types without parts are equal, or they differ in what their elements do not show, such as a dimension.
	if len(b) == 0 && !udt {
		return now.Equal(then)
	}
	// The fields that then does not have are null in its values.
	for i := range b {
		if !extends(a[i], b[i], exact) {
			return false
		}
	}
	return now.Kind() != types.Vector || now.Dimensions() == then.Dimensions()
}

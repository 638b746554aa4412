package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cqld/schema/refused"
	"cqld/types"
)

// A table that is dropped with a grace period stays in the schema without its name (ADR 50). Statements do not find it,
// and its name is free, but it keeps its storage id. Its rows are therefore replicated, repaired and moved like all
// others. UNDROP TABLE gives the table a name again.
//
//	DROP TABLE ──▶ retained ──▶ UNDROP TABLE: a table with the same number, rows and indexes
//	TRUNCATE ─────────┘ └──────▶ PURGE TABLE, or the end of the grace: Dropped reports its number
//
// TRUNCATE retains the rows of a table that stays (TruncateTable).

// Retention describes when a retained table was dropped, and until when it can be restored. Both are seconds since
// 1970, by the clock of the node that executed the statement.
type Retention struct {
	Dropped, Until int64
	// Truncated is the identifier of the table whose rows these were before a TRUNCATE. Zero means that the retained
	// table was dropped.
	Truncated UUID `json:",omitzero"`
}

// retainedMax bounds the retained tables of a schema, because every node keeps their definitions in memory. Beyond it,
// the table that was dropped first is removed.
const retainedMax = 256

// Retained returns the retained tables of the keyspace, in the order of their drops. Their names may be in use by
// other tables. Callers must not modify the slice.
func (k *Keyspace) Retained() []*Table { return k.retained }

// Retained returns the retained tables of all keyspaces, in the order of their drops. For a dropped keyspace, it
// includes only the tables that were dropped before the keyspace.
func (s *Schema) Retained() []*Table {
	// Keyspaces are sorted by name first, so drops within one second have the same order on all nodes.
	var all []*Table
	for _, name := range s.StoredKeyspaceNames() {
		all = append(all, s.StoredKeyspace(name).retained...)
	}
	slices.SortStableFunc(all, byDrop)
	return all
}

// byDrop compares tables by the time of their drops, then by storage id.
func byDrop(a, b *Table) int {
	return cmp.Or(cmp.Compare(a.Retention.Dropped, b.Retention.Dropped), cmp.Compare(a.StorageID, b.StorageID))
}

// StoredTables returns the tables of the keyspace that have rows in storage: its tables without views, by name, and the
// retained tables.
func (k *Keyspace) StoredTables() (tables []*Table) {
	// Views are computed from their base tables (ADR 38). Retained tables have no views.
	for _, t := range k.present {
		if t.View == nil {
			tables = append(tables, t)
		}
	}
	return tables
}

// withRetained returns the tables of sorted and retained, by name and storage id.
func withRetained(sorted, retained []*Table) []*Table {
	if len(retained) == 0 {
		return sorted
	}
	// replaceTables compares two such lists in one pass.
	return slices.SortedFunc(slices.Values(slices.Concat(sorted, retained)), func(a, b *Table) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.StorageID, b.StorageID))
	})
}

// retain returns s without a table whose data stay until its grace period ends. t has no views.
func (s *Schema) retain(k *Keyspace, t *Table, r Retention) *Schema {
	// Copy, because other schemas contain the table under its name.
	kept := t.copyForChange()
	kept.Retention = &r
	c := k.withoutTable(t.Name)
	// Clone, because other schemas share the list.
	c.retained = append(slices.Clone(k.retained), kept.Seal())
	return s.with(c).boundRetained()
}

// withoutRetained returns s without the given retained tables, or s itself if it has none of them. gone contains the
// end of each grace period.
func (s *Schema) withoutRetained(gone map[StorageID]int64) *Schema {
	is := func(t *Table) bool {
		until, ok := gone[t.StorageID]
		return ok && until == t.Retention.Until
	}
	// One change may remove tables of several keyspaces.
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

// applyPurgeTables removes retained tables. Their storage ids are not reused.
func applyPurgeTables(s *Schema, c *PurgeTables) (*Schema, error) {
	return s.withoutRetained(c.Tables), nil
}

// applyUndropTable gives a retained table a name again. Indexes whose names are in use are renamed, which does not
// affect queries: they find indexes by column.
func applyUndropTable(s *Schema, c *UndropTable) (*Schema, error) {
	// A keyspace that was dropped and created again has no retained tables.
	k := s.keyspaces[c.Keyspace]
	if k == nil {
		return nil, &refused.NotFound{Keyspace: c.Keyspace}
	}
	// Searched by storage id: another node may have restored the table, and several tables may have had the name.
	i := slices.IndexFunc(k.retained, func(t *Table) bool { return t.StorageID == c.Table })
	if i < 0 {
		return nil, invalidf("The dropped table can no longer be restored: its grace has ended, or it was purged or " +
			"restored")
	}
	// Tables and views share a namespace. The message suggests AS.
	dropped := k.retained[i]
	if k.tables[c.As] != nil {
		return nil, invalidf("Cannot restore table '%s.%s': another table or view has the name '%s'; restore it with "+
			"UNDROP TABLE … AS another name", k.Name, dropped.Name, c.As)
	}
	// The storage id, the UUID and the ids of columns stay, because rows, statements and drivers refer to them.
	t := dropped.copyForChange()
	t.Name, t.Retention = c.As, nil
	if err := updateTypes(t, k); err != nil {
		return nil, err
	}
	// Index entries contain the id of the index, so its name may change.
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

// updateTypes updates the columns of a retained table to the current versions of user-defined types. While the table
// was retained, statements could alter or drop the types, and drop masking functions. t is a copy.
func updateTypes(t *Table, k *Keyspace) error {
	for _, list := range [...][]*Column{t.PartitionKey, t.Clustering, t.Statics, t.Regulars} {
		for i, old := range list {
			now, reason := restored(k, old)
			if reason != "" {
				return invalidf("Cannot restore table '%s.%s': %s", t.Keyspace, t.Name, reason)
			}
			list[i] = now
		}
	}
	return nil
}

// restored returns a column with the current versions of user-defined types: old itself if they are the same. If the
// column cannot be restored, it returns a reason.
func restored(k *Keyspace, old *Column) (now *Column, reason string) {
	// Native functions cannot be dropped, and masks use functions of their own keyspace only.
	if m := old.Mask; m != nil && m.Keyspace != "" && !k.hasFunction(m.Function) {
		return nil, fmt.Sprintf("column '%s' is masked with function '%s.%s', which was dropped", old.Name, m.Keyspace,
			m.Function)
	}
	// The current type may have more fields, and renamed ones.
	typ, err := k.current(old.Type)
	if err != nil || !extends(typ, old.Type, old.Kind == PartitionKey) {
		return nil, fmt.Sprintf("column '%s' has type %s, which was dropped or created again with other fields",
			old.Name, old.Type)
	}
	// Columns are shared, so a changed one is replaced.
	if typ == old.Type {
		return old, ""
	}
	c := *old
	c.Type = typ
	return &c, ""
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

// extends reports whether every value of type then is a value of type now: the types differ at most by names of fields
// and by fields added to user-defined types, as after ALTER TYPE. Partition keys are compared as bytes, so exact
// refuses added fields.
func extends(now, then *types.Type, exact bool) bool {
	a, b := now.Elems(), then.Elems()
	udt := now.Kind() == types.UDT
	// Multi-cell and single-cell types are stored differently.
	if now.Kind() != then.Kind() || now.MultiCell() != then.MultiCell() || len(a) < len(b) ||
		len(a) > len(b) && (exact || !udt) {
		return false
	}
	// Types without parts must be equal, including properties that are not parts, such as dimensions.
	if len(b) == 0 && !udt {
		return now.Equal(then)
	}
	// Added fields are null in old values.
	for i := range b {
		if !extends(a[i], b[i], exact) {
			return false
		}
	}
	return now.Kind() != types.Vector || now.Dimensions() == then.Dimensions()
}

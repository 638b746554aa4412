package schema

import (
	"slices"

	"cqld/types"
)

// A column that is dropped with a grace can be restored until the grace ends (ADR 50). Storage knows no columns: the
// cells of a dropped column are merged, expire, move and are deleted by rows as the cells of other columns, and only
// readers hide them. A restored column is therefore the former one, with its id.
//
//	DROP c ──▶ Dropped, with Until ──▶ UNDROP c: the column with the id, type, mask and attributes of before
//	                │        └───────▶ PURGE c, or At ≥ Until: the cells stay hidden
//	                └──▶ ADD c: another column with the id, which hides the former cells. DROP of that column replaces
//	                     the entry: UNDROP restores it, and not the first one.

// alterUndrop restores dropped columns.
func alterUndrop(t *Table, k *Keyspace, c *AlterTable) error {
	for _, name := range c.Undrop {
		at := restorable(t, name)
		// Key columns may have been renamed to the name.
		switch used := t.columnsByName()[name]; {
		case used != nil && at < 0:
			return invalidf("Column '%s' of table '%s.%s' is not dropped", name, t.Keyspace, t.Name)
		case used != nil:
			return invalidf("Cannot restore column '%s' of table '%s.%s': another column has the name", name,
				t.Keyspace, t.Name)
		case at < 0 || c.At >= t.Dropped[at].Until:
			return invalidf("Cannot restore column '%s' of table '%s.%s': it was not dropped, drop_grace was 0, its "+
				"grace has ended, or it was purged", name, t.Keyspace, t.Name)
		}
		// The copy shares no pointer with the entry, whose type is expanded.
		d := t.Dropped[at]
		former := d.Column
		former.Type = d.Declared
		col, reason := restored(k, &former)
		if reason != "" {
			return invalidf("Cannot restore column '%s' of table '%s.%s': %s", name, t.Keyspace, t.Name, reason)
		}
		// A table that has lost all its counters may have got other columns, and the reverse.
		if len(t.Statics)+len(t.Regulars) > 0 && col.IsCounter() != hasCounters(t) {
			return invalidf("Cannot restore column '%s' of table '%s.%s': counters and other columns cannot be in one "+
				"table", name, t.Keyspace, t.Name)
		}
		restoreColumn(t, at, col)
	}
	return nil
}

// restoreColumn moves the dropped column at an index of t.Dropped to the columns, as col.
func restoreColumn(t *Table, at int, col *Column) {
	if col.Kind == Static {
		t.Statics = append(t.Statics, col)
	} else {
		t.Regulars = append(t.Regulars, col)
	}
	// Without an earlier drop, nothing is hidden. Otherwise the entry is as after ADD of the column.
	if col.DroppedMicros == 0 {
		t.Dropped = slices.Delete(t.Dropped, at, at+1)
		return
	}
	earlier := *col
	earlier.Type = ExpandUserTypes(col.Type)
	t.Dropped[at] = DroppedColumn{Column: earlier, Micros: col.DroppedMicros}
}

// alterPurge ends the grace of dropped columns. Their names may be in use by other columns.
func alterPurge(t *Table, c *AlterTable) error {
	for _, name := range c.Purge {
		at := restorable(t, name)
		if at < 0 {
			return invalidf("No dropped column '%s' of table '%s.%s' can be purged: it was not dropped, or cannot be "+
				"restored", name, t.Keyspace, t.Name)
		}
		t.Dropped[at].Until, t.Dropped[at].Declared = 0, nil
	}
	return nil
}

// restorable returns the index in t.Dropped of the dropped column with a name, or -1 if it cannot be restored. The
// grace may have ended.
func restorable(t *Table, name string) int {
	return slices.IndexFunc(t.Dropped, func(d DroppedColumn) bool { return d.Name == name && d.Until > 0 })
}

// sameType reports whether both types are nil or equal.
func sameType(a, b *types.Type) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(b)
}

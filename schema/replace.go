package schema

import (
	"slices"

	"cqld/schema/refused"
)

// ReplaceTables replaces tables by restored ones, all in one step: each restored table takes the name of the table that
// it replaces. Replaced tables are dropped as by DROP TABLE, with their indexes and materialized views. Restored tables
// keep their storage ids, rows and indexes, so statements find either the old table or the restored one.
//
//	before                      after
//	orders            1024      retained: orders   1024     UNDROP TABLE orders AS …
//	restoring_orders  1031      orders             1031
//
// Clients see a drop and a creation, so drivers prepare statements again. Permissions are granted by name, and stay
// (package metadata).
type ReplaceTables struct {
	Tables []Replacement // and materialized views
	// Retention keeps the replaced tables restorable. nil removes them at once.
	Retention *Retention `json:",omitempty"`
}

// Replacement is a table or materialized view that gets a new name. A view follows its base table, which must be in the
// same change.
type Replacement struct {
	Keyspace string
	From     string // the name until now
	Table    string // the name that it gets
	ID       UUID   // of the table From
	// Replaced is the id of the table that is called Table, or zero if there is none. A table with the name and another
	// id was created after the change was planned, and is refused. A name without a table may be used. Zero for views.
	Replaced UUID
	// Indexes maps the current names of indexes to their new names. An empty new name means the default one. An index
	// whose new name is in use gets another one, as in UndropTable.
	Indexes map[string]string `json:",omitempty"`
	// Extensions are the extensions of the restored table.
	Extensions map[string][]byte `json:",omitempty"`
}

func (*ReplaceTables) change() {}

// applyReplaceTables replaces all tables or none, so tables of several keyspaces change at the same time. A replacement
// that has already been applied has no effect, because its proposer may have missed the outcome.
//
//	the name has no table, or the table Replaced    replaced
//	the name has the restored table already         no effect
//	the name has another table, or a view           refused
//	the table has a view that nothing replaces      refused
//	the restored table does not exist               refused
func applyReplaceTables(s *Schema, c *ReplaceTables) (*Schema, error) {
	var pending []Replacement
	for _, r := range c.Tables {
		k := s.keyspaces[r.Keyspace]
		if k == nil {
			return nil, &refused.NotFound{Keyspace: r.Keyspace}
		}
		if IsSystem(r.Keyspace) {
			return nil, invalidf("Cannot replace table '%s.%s'", r.Keyspace, r.Table)
		}
		if t := k.tables[r.Table]; t == nil || t.ID != r.ID {
			pending = append(pending, r)
		}
	}
	next := s
	for len(pending) > 0 {
		// Each keyspace is changed once, because each change sorts and hashes its tables.
		k := s.keyspaces[pending[0].Keyspace]
		x := replacing{old: k, now: k.clone(), retention: c.Retention}
		pending = slices.DeleteFunc(pending, func(r Replacement) bool {
			if r.Keyspace == k.Name {
				x.list = append(x.list, r)
			}
			return r.Keyspace == k.Name
		})
		if err := x.replace(); err != nil {
			return nil, err
		}
		next = next.with(x.now)
	}
	return next.boundRetained(), nil
}

// replacing replaces tables of one keyspace. old is the keyspace before, from which all tables are read; now is the
// keyspace after, which is not linked yet.
type replacing struct {
	old, now  *Keyspace
	list      []Replacement // of this keyspace, tables and views
	retention *Retention
}

// replace removes all replaced tables before it adds any, because a view of one replaced table may have the name of a
// view of another one.
func (x *replacing) replace() error {
	// Clone, because other schemas share the list.
	x.now.retained = slices.Clone(x.old.retained)
	// All replacements are validated first. Views are added with their base tables.
	var bases []*Replacement
	for i := range x.list {
		r := &x.list[i]
		t := x.old.tables[r.From]
		if t == nil || t.ID != r.ID {
			return invalidf("Cannot replace table '%s.%s': the restored table '%s' was dropped", r.Keyspace, r.Table,
				r.From)
		}
		if t.View == nil {
			bases = append(bases, r)
			// A view has the rows of its base table, so it cannot be replaced alone.
		} else if !slices.ContainsFunc(x.list, func(o Replacement) bool { return o.From == t.View.Base }) {
			return invalidf("Cannot replace materialized view '%s.%s' without its base table", r.Keyspace, r.Table)
		}
	}
	for _, r := range bases {
		if err := x.remove(r); err != nil {
			return err
		}
		// The restored table gives up its current name.
		delete(x.now.tables, r.From)
		for _, v := range x.old.tables[r.From].views {
			delete(x.now.tables, v.Name)
		}
	}
	for _, r := range bases {
		if err := x.add(r); err != nil {
			return err
		}
	}
	return nil
}

// remove drops the replaced table with its views, and retains it.
func (x *replacing) remove(r *Replacement) error {
	old := x.old.tables[r.Table]
	switch {
	case old == nil:
		return nil
	case old.View != nil:
		return invalidf("Cannot replace '%s.%s': it is a materialized view", r.Keyspace, r.Table)
	case old.ID != r.Replaced:
		return invalidf("Cannot replace table '%s.%s': it was created while the table was restored", r.Keyspace,
			r.Table)
	}
	// A view that is not replaced would be dropped, which its users do not expect.
	for _, v := range old.views {
		restored := func(o Replacement) bool { return o.Table == v.Name && x.old.tables[o.From].View != nil }
		if !slices.ContainsFunc(x.list, restored) {
			return invalidf("Cannot replace table '%s.%s': its materialized view '%s' is not restored with it; drop "+
				"the view first", r.Keyspace, r.Table, v.Name)
		}
		delete(x.now.tables, v.Name)
	}
	delete(x.now.tables, old.Name)
	if x.retention == nil {
		return nil
	}
	// Copy, because other schemas contain the table under its name.
	kept, retention := old.copyForChange(), *x.retention
	kept.Retention, kept.views = &retention, nil
	x.now.retained = append(x.now.retained, kept.Seal())
	return nil
}

// add adds a restored table under its new name, with its views.
func (x *replacing) add(r *Replacement) error {
	// The storage id, the UUID and the ids of columns stay, because rows and index entries contain them.
	old := x.old.tables[r.From]
	t := old.copyForChange()
	t.Name, t.Options.Extensions = r.Table, r.Extensions
	// Index names are unique in the keyspace. Without indexes, the names need not be collected.
	taken := map[string]bool{}
	if len(t.indexes) > 0 {
		taken = x.now.IndexesCalled("")
	}
	for i, ix := range t.indexes {
		name, renamed := r.Indexes[ix.Name]
		// An index that was created on the restored table after the change was planned keeps its name.
		if !renamed {
			name = ix.Name
		} else if name == "" {
			name = defaultIndexName(t, t.ColumnByID(ix.Column).Name)
		}
		named := *ix
		named.Name = unusedIndexName(name, taken)
		if err := checkIndexName(t, named.Name); err != nil {
			return err
		}
		taken[named.Name], t.indexes[i] = true, &named
	}
	if err := x.place(t.Seal()); err != nil {
		return err
	}
	for _, v := range old.views {
		// Other schemas share views and their definitions, so both are copied.
		view, definition := v.copyForChange(), *v.View
		view.View = &definition
		// A view that was created on the restored table after the change was planned keeps its name.
		if i := slices.IndexFunc(x.list, func(o Replacement) bool { return o.ID == v.ID }); i >= 0 {
			view.Name, view.Options.Extensions = x.list[i].Table, x.list[i].Extensions
		}
		view.follow(t)
		if err := x.place(view); err != nil {
			return err
		}
	}
	return nil
}

// place adds a sealed table or view, whose name must be free.
func (x *replacing) place(t *Table) error {
	if x.now.tables[t.Name] != nil {
		return invalidf("Cannot restore table '%s.%s': another table or view has the name", t.Keyspace, t.Name)
	}
	// Validated again, because the name is new.
	x.now.tables[t.Name] = t
	return t.validate()
}

// boundRetained returns s with at most retainedMax retained tables: it removes those that were dropped first.
func (s *Schema) boundRetained() *Schema {
	// The limit applies to all keyspaces together, because every node keeps all definitions in memory.
	all := s.Retained()
	if len(all) <= retainedMax {
		return s
	}
	gone := map[StorageID]int64{}
	for _, t := range all[:len(all)-retainedMax] {
		gone[t.StorageID] = t.Retention.Until
	}
	return s.withoutRetained(gone)
}

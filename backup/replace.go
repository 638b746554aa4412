package backup

import (
	"fmt"
	"slices"
	"strconv"

	"cqld/schema"
)

// nameMax is the length of the longest name of a table, in bytes.
const nameMax = 222

// A table that replaces another one has a name of its own until all of its rows are restored. The name is visible, so
// that an operator who gives the restoration up can drop the table.
//
//	Changes       CREATE TABLE restoring_5f3a91c0_orders, its indexes and views
//	the nodes     rows and entries of indexes
//	Replacement   restoring_5f3a91c0_orders becomes orders, which is dropped

// temporaryName returns the name that a restored table, view or index has until Replacement is applied. It shows what
// it is, and differs from the names of other restorations. id is of the table or view.
func temporaryName(id schema.UUID, name string) string {
	name = fmt.Sprintf("restoring_%x_%s", id[:4], name)
	return name[:min(len(name), nameMax)]
}

// created returns the name with which a table or view is created.
func (t Target) created(seed string) string {
	if t.Replaces {
		return temporaryName(IDOf(seed, t), t.As)
	}
	return t.As
}

// view returns the target of a view of the table, which is not renamed.
func (t Target) view(v *schema.Table) Target {
	return Target{v.Keyspace, v.Name, v.Keyspace, v.Name, t.Replaces}
}

// replaced reports whether an earlier attempt has applied Replacement. It has named all tables, so that one that has
// its name, or was dropped with it, stands for the others.
func replaced(now *schema.Schema, targets []Target, seed string) bool {
	return slices.ContainsFunc(targets, func(t Target) bool {
		k := now.Keyspace(t.Into)
		if !t.Replaces || k == nil {
			return false
		}
		// By identifier: another table may have the name.
		id := IDOf(seed, t)
		is := func(o *schema.Table) bool { return o.ID == id && o.Name == t.As }
		return slices.ContainsFunc(k.Tables(), is) || slices.ContainsFunc(k.Retained(), is)
	})
}

// Replacement returns the change that gives tables which Changes has created their names, all in one step. It is nil if
// no target replaces a table, or an earlier attempt has applied it. The tables that have the names now are replaced,
// and no others.
func Replacement(then, now *schema.Schema, targets []Target, seed string) *schema.ReplaceTables {
	if replaced(now, targets, seed) {
		return nil
	}
	// The change has no retention: how long replaced tables are kept is decided when they are replaced.
	c := &schema.ReplaceTables{}
	for _, t := range targets {
		if !t.Replaces {
			continue
		}
		old := then.Table(t.Keyspace, t.Name)
		r := schema.Replacement{Keyspace: t.Into, From: t.created(seed), Table: t.As, ID: IDOf(seed, t),
			Indexes: map[string]string{}, Extensions: old.Options.Extensions}
		// The change is refused if the name has another table then.
		if live := now.Table(t.Into, t.As); live != nil {
			r.Replaced = live.ID
		}
		// In the order in which Changes has created them.
		for i, x := range old.Indexes() {
			name := x.Name
			// The table of the backup may exist, with an index of the name.
			if t.Renamed() {
				name = ""
			}
			r.Indexes[temporaryName(r.ID, strconv.Itoa(i))] = name
		}
		c.Tables = append(c.Tables, r)
		// A table under another name has no views.
		for _, v := range old.Views() {
			if view := t.view(v); !t.Renamed() {
				c.Tables = append(c.Tables, schema.Replacement{Keyspace: v.Keyspace, From: view.created(seed),
					Table: v.Name, ID: IDOf(seed, view), Extensions: v.Options.Extensions})
			}
		}
	}
	if len(c.Tables) == 0 {
		return nil
	}
	return c
}

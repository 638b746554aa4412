package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cqld/types"
)

// A keyspace that is dropped with a grace stays in the schema under a hidden name (ADR 50). Statements do not find it,
// and its name is free. Code below statements finds it by the hidden name, which its tables have as their keyspace, so
// that its rows are replicated, repaired and moved as its replication demands.
//
//	DROP KEYSPACE shop ──▶ shop#1031 ──▶ UNDROP KEYSPACE: the keyspace with all that it had
//	                           └───────▶ PURGE KEYSPACE, or the end of the grace: Dropped reports its tables

// DroppedKeyspace describes a keyspace that was dropped and can be restored.
type DroppedKeyspace struct {
	Retention
	// Name is the name that statements used. Types and functions of the keyspace still have it.
	Name string
	// Number is unique among the dropped keyspaces of a schema. It is from the counter of tables.
	Number StorageID
}

// hiddenName returns the name of the keyspace in the schema. No keyspace can be created with it (CheckKeyspaceName).
func (d *DroppedKeyspace) hiddenName() string { return fmt.Sprint(d.Name, hiddenMark, d.Number) }

// hiddenMark is in all hidden names, and in no others: names of keyspaces are words. A hidden name may be longer than
// the names of keyspaces may be.
const hiddenMark = "#"

// retainedElementsMax bounds the dropped keyspaces of a schema with their tables, views, types and functions: every
// node has their definitions in memory.
const retainedElementsMax = 1024

// elementsOf returns how much of retainedElementsMax a keyspace takes.
func elementsOf(k *Keyspace) int {
	// A keyspace without elements is bounded, too.
	return 1 + len(k.tables) + len(k.types) + len(k.functions) + len(k.aggregates)
}

// Restorable reports whether a keyspace can be retained when it is dropped. A keyspace with more than 1,023 tables,
// views, types and functions cannot.
func Restorable(k *Keyspace) bool { return elementsOf(k) <= retainedElementsMax }

// DroppedKeyspaces returns the keyspaces that were dropped and can be restored, in the order of their drops.
func (s *Schema) DroppedKeyspaces() []*Keyspace {
	return slices.SortedFunc(maps.Values(s.dropped), func(a, b *Keyspace) int {
		// Numbers grow with each change, so that they order the drops of one second.
		x, y := a.Dropped, b.Dropped
		return cmp.Or(cmp.Compare(x.Retention.Dropped, y.Retention.Dropped), cmp.Compare(x.Number, y.Number))
	})
}

// StoredKeyspace returns the keyspace with a name, or the dropped keyspace with a hidden name, or nil. It is for code
// that stores, moves or repairs rows, and starts from Table.Keyspace or StoredKeyspaceNames.
//
//	statements, permissions, DESCRIBE, events, backups           Keyspace
//	placement, streams, drops of ranges, Paxos states, storage   StoredKeyspace
//	names in messages of another node                            KeyspaceCalled
func (s *Schema) StoredKeyspace(name string) *Keyspace {
	if k := s.keyspaces[name]; k != nil {
		return k
	}
	return s.dropped[name]
}

// StoredKeyspaceNames returns the names of all keyspaces and the hidden names of the dropped ones, sorted.
func (s *Schema) StoredKeyspaceNames() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.keyspaces)), maps.Keys(s.dropped))
	slices.Sort(names)
	return names
}

// KeyspaceCalled returns the keyspace that another node means by a name of its StoredKeyspaceNames, or nil. Its schema
// may be one before or after the drop of a keyspace that this schema has under its other name.
//
//	here    shop#1031, and no shop    shop means shop#1031: the other node does not know the drop yet
//	here    shop                      shop#1031 means shop: this node does not know the drop yet
func (s *Schema) KeyspaceCalled(name string) *Keyspace {
	if k := s.StoredKeyspace(name); k != nil {
		return k
	}
	if before, _, hidden := strings.Cut(name, hiddenMark); hidden {
		return s.keyspaces[before]
	}
	// The last one that was dropped: an earlier one was dropped before that one was created.
	for _, k := range slices.Backward(s.DroppedKeyspaces()) {
		if k.Dropped.Name == name {
			return k
		}
	}
	return nil
}

// retainKeyspace returns s with k as a dropped keyspace. If the dropped keyspaces have too many elements, those that
// were dropped first are removed. k is restorable.
func (s *Schema) retainKeyspace(k *Keyspace, r Retention) *Schema {
	// Schemas share both maps.
	keyspaces, dropped := maps.Clone(s.keyspaces), maps.Clone(s.dropped)
	delete(keyspaces, k.Name)
	room := retainedElementsMax - elementsOf(k)
	// The last drops first: they stay.
	earlier := s.DroppedKeyspaces()
	slices.Reverse(earlier)
	for _, old := range earlier {
		if room -= elementsOf(old); room < 0 {
			delete(dropped, old.Name)
		}
	}
	// The hidden keyspace has the same numbers of tables and indexes: rebuiltWith removes all before it adds any.
	hidden := hide(k, DroppedKeyspace{Retention: r, Name: k.Name, Number: s.nextStorage})
	hidden.link()
	if dropped == nil {
		dropped = map[string]*Keyspace{}
	}
	dropped[hidden.Name] = hidden
	return s.rebuiltWith(keyspaces, dropped, s.nextStorage+1)
}

// hide returns k as a dropped keyspace. Its tables have its hidden name and its retention, so that they are treated as
// dropped tables. Types and functions stay as they are. The result is not linked.
func hide(k *Keyspace, d DroppedKeyspace) *Keyspace {
	c := k.clone()
	c.Name, c.Dropped = d.hiddenName(), &d
	moveTables(c, k, func(t *Table) { t.Keyspace = c.Name }, &d.Retention)
	return c
}

// restore returns a dropped keyspace with a name. The result is not linked.
func restore(k *Keyspace, as string) *Keyspace {
	c := k.clone()
	c.Name, c.Dropped = as, nil
	// Types contain the name of their keyspace.
	name := renaming{from: k.Dropped.Name, to: as}
	name.contents(c)
	moveTables(c, k, name.table, nil)
	return c
}

// moveTables replaces the tables of c, a clone of k, by copies that change has changed. Its tables and views have the
// retention r; tables that were dropped before the keyspace keep their own.
func moveTables(c, k *Keyspace, change func(*Table), r *Retention) {
	// Views are among the tables: they have a retention, too, so that nothing shows them. link finds them again.
	for name, t := range k.tables {
		moved := t.copyForChange()
		change(moved)
		moved.Retention = r
		c.tables[name] = moved.Seal()
	}
	// A new list: schemas share it.
	c.retained = nil
	for _, t := range k.retained {
		moved := t.copyForChange()
		change(moved)
		c.retained = append(c.retained, moved.Seal())
	}
}

// renaming gives the contents of a keyspace another name of the keyspace. Elements are copied, because schemas share
// them.
type renaming struct{ from, to string }

// contents renames the types, functions and aggregates of k, which is a clone. Signatures have no keyspaces.
func (n renaming) contents(k *Keyspace) {
	if n.from == n.to {
		return
	}
	// Types may contain each other. Each is renamed with all that it contains, so that the order does not matter.
	for name, t := range k.types {
		k.types[name] = n.typ(t)
	}
	// Bodies stay as they are: they cannot name a keyspace.
	for signature, old := range k.functions {
		f := *old
		f.Keyspace, f.ArgTypes, f.Returns = n.to, n.types(old.ArgTypes), n.typ(old.Returns)
		k.functions[signature] = &f
	}
	for signature, old := range k.aggregates {
		a := *old
		a.Keyspace, a.ArgTypes, a.StateType, a.Returns = n.to, n.types(old.ArgTypes), n.typ(old.StateType),
			n.typ(old.Returns)
		k.aggregates[signature] = &a
	}
}

// typ returns t with the user-defined types in it renamed: all are of one keyspace. A retained table may use types that
// the keyspace no longer has.
func (n renaming) typ(t *types.Type) *types.Type {
	t = withParts(t, n.typ)
	if t.Kind() == types.UDT {
		return types.NewUDT(n.to, t.UDTName(), t.FieldNames(), t.Elems(), t.Frozen())
	}
	return t
}

// types is typ for a list.
func (n renaming) types(list []*types.Type) []*types.Type {
	out := make([]*types.Type, len(list))
	for i, t := range list {
		out[i] = n.typ(t)
	}
	return out
}

// table renames the keyspace of t, which is a copy, and of the types and masks of its columns.
func (n renaming) table(t *Table) {
	if t.Keyspace = n.to; n.from == n.to {
		return
	}
	for _, list := range [...][]*Column{t.PartitionKey, t.Clustering, t.Statics, t.Regulars} {
		for i, old := range list {
			c := *old
			c.Type = n.typ(old.Type)
			// Native functions have no keyspace, and functions of other keyspaces cannot be masks.
			if m := old.Mask; m != nil && m.Keyspace == n.from {
				c.Mask = n.mask(m)
			}
			list[i] = &c
		}
	}
}

// mask returns a renamed mask.
func (n renaming) mask(m *Mask) *Mask {
	mask := *m
	mask.Keyspace, mask.Types = n.to, slices.Clone(m.Types)
	for i, class := range m.Types {
		// Classes of a mask are not checked when they are decoded, so that a class that is none stays.
		if t, err := decodeType(class); err == nil {
			mask.Types[i] = n.typ(t).DeclaredClass()
		}
	}
	return &mask
}

// applyUndropKeyspace gives a dropped keyspace a name again.
func applyUndropKeyspace(s *Schema, c *UndropKeyspace) (*Schema, error) {
	k := s.dropped[c.Keyspace]
	if k == nil {
		return nil, invalidf("The dropped keyspace can no longer be restored: its grace has ended, or it was purged " +
			"or restored")
	}
	// The message says what works instead.
	if s.keyspaces[c.As] != nil || IsSystem(c.As) {
		return nil, invalidf("Cannot restore keyspace '%s': another keyspace has the name '%s'; restore it with "+
			"UNDROP KEYSPACE … AS another name", k.Dropped.Name, c.As)
	}
	if err := CheckKeyspaceName(c.As); err != nil {
		return nil, err
	}
	// Tables, numbers and identifiers are the former ones: no row is read or written.
	restored := restore(k, c.As)
	restored.link()
	keyspaces, dropped := maps.Clone(s.keyspaces), maps.Clone(s.dropped)
	// The number is not used again, so that no later keyspace has this hidden name.
	delete(dropped, c.Keyspace)
	keyspaces[c.As] = restored
	return s.rebuiltWith(keyspaces, dropped, s.nextStorage), nil
}

// applyPurgeKeyspaces removes dropped keyspaces with their tables, also those that had been dropped before them.
// Dropped reports the numbers of these tables from then on.
func applyPurgeKeyspaces(s *Schema, c *PurgeKeyspaces) (*Schema, error) {
	dropped := maps.Clone(s.dropped)
	// A purge of an earlier drop names another keyspace, because numbers are not used again. The end of the grace is
	// compared all the same, as in PurgeTables.
	maps.DeleteFunc(dropped, func(name string, k *Keyspace) bool {
		until, ok := c.Keyspaces[name]
		return ok && until == k.Dropped.Until
	})
	if len(dropped) == len(s.dropped) {
		return s, nil
	}
	return s.rebuiltWith(s.keyspaces, dropped, s.nextStorage), nil
}

// IsHidden reports whether a name is a hidden name of a dropped keyspace, as Table.Keyspace may be.
func IsHidden(keyspace string) bool { return strings.Contains(keyspace, hiddenMark) }

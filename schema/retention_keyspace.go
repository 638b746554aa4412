package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cqld/types"
)

// A keyspace that is dropped with a grace period stays in the schema under a hidden name (ADR 50). Statements do not
// find it, and its name is free. Replication, repair and range movements find it by the hidden name, which is the
// keyspace name of its tables.
//
//	DROP KEYSPACE shop ──▶ shop#1031 ──▶ UNDROP KEYSPACE: the keyspace and its contents
//	                           └───────▶ PURGE KEYSPACE, or end of the grace period: Dropped reports its tables

// DroppedKeyspace describes a keyspace that was dropped and can be restored.
type DroppedKeyspace struct {
	Retention
	// Name is the name before the drop. The keyspace's types and functions still contain it.
	Name string
	// Number is unique among the dropped keyspaces of a schema. It comes from the counter of storage ids.
	Number StorageID
}

// hiddenName returns the name of the dropped keyspace in the schema. CheckKeyspaceName refuses it for new keyspaces.
func (d *DroppedKeyspace) hiddenName() string { return fmt.Sprint(d.Name, hiddenMark, d.Number) }

// hiddenMark is part of all hidden names and of no other keyspace name. A hidden name may exceed keyspaceNameMax.
const hiddenMark = "#"

// retainedElementsMax bounds the dropped keyspaces of a schema including their tables, views, types and functions,
// because every node keeps their definitions in memory.
const retainedElementsMax = 1024

// elementsOf returns how much of retainedElementsMax a keyspace uses.
func elementsOf(k *Keyspace) int {
	// The keyspace itself counts, so empty ones are bounded, too.
	return 1 + len(k.tables) + len(k.types) + len(k.functions) + len(k.aggregates)
}

// Restorable reports whether a keyspace can be retained when it is dropped. A keyspace with more than 1,023 tables,
// views, types and functions cannot.
func Restorable(k *Keyspace) bool { return elementsOf(k) <= retainedElementsMax }

// DroppedKeyspaces returns the keyspaces that were dropped and can be restored, in the order of their drops.
func (s *Schema) DroppedKeyspaces() []*Keyspace {
	return slices.SortedFunc(maps.Values(s.dropped), func(a, b *Keyspace) int {
		// Numbers grow with each drop, so they order drops within one second.
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

// KeyspaceCalled returns the keyspace to which another node refers by one of its StoredKeyspaceNames, or nil. The
// schemas of the two nodes may differ: one of them may have dropped or restored the keyspace already.
//
//	here    shop#1031, and no shop    shop means shop#1031: the other node has not applied the drop
//	here    shop                      shop#1031 means shop: this node has not applied the drop
func (s *Schema) KeyspaceCalled(name string) *Keyspace {
	if k := s.StoredKeyspace(name); k != nil {
		return k
	}
	if before, _, hidden := strings.Cut(name, hiddenMark); hidden {
		return s.keyspaces[before]
	}
	// The most recent drop wins, because earlier ones precede the creation of that keyspace.
	for _, k := range slices.Backward(s.DroppedKeyspaces()) {
		if k.Dropped.Name == name {
			return k
		}
	}
	return nil
}

// retainKeyspace returns s with k as a dropped keyspace. If the dropped keyspaces have too many elements, it removes
// those that were dropped first. k must be Restorable.
func (s *Schema) retainKeyspace(k *Keyspace, r Retention) *Schema {
	// Clone, because schemas share both maps.
	keyspaces, dropped := maps.Clone(s.keyspaces), maps.Clone(s.dropped)
	delete(keyspaces, k.Name)
	room := retainedElementsMax - elementsOf(k)
	// Latest drops first, because they are kept.
	earlier := s.DroppedKeyspaces()
	slices.Reverse(earlier)
	for _, old := range earlier {
		if room -= elementsOf(old); room < 0 {
			delete(dropped, old.Name)
		}
	}
	// The hidden keyspace keeps its storage ids: rebuiltWith removes the old entries before it adds new ones.
	hidden := hide(k, DroppedKeyspace{Retention: r, Name: k.Name, Number: s.nextStorage})
	hidden.link()
	if dropped == nil {
		dropped = map[string]*Keyspace{}
	}
	dropped[hidden.Name] = hidden
	return s.rebuiltWith(keyspaces, dropped, s.nextStorage+1)
}

// hide returns k as a dropped keyspace. Its tables get the hidden name and the retention, so they are treated as
// dropped tables. Types and functions stay. The result is not linked.
func hide(k *Keyspace, d DroppedKeyspace) *Keyspace {
	c := k.clone()
	c.Name, c.Dropped = d.hiddenName(), &d
	moveTables(c, k, func(t *Table) { t.Keyspace = c.Name }, &d.Retention)
	return c
}

// restore returns a dropped keyspace under the name as. The result is not linked.
func restore(k *Keyspace, as string) *Keyspace {
	c := k.clone()
	c.Name, c.Dropped = as, nil
	// Types contain the name of their keyspace.
	name := renaming{from: k.Dropped.Name, to: as}
	name.contents(c)
	moveTables(c, k, name.table, nil)
	return c
}

// moveTables replaces the tables of c, a clone of k, by copies modified by change, with the retention r. Tables that
// were dropped before the keyspace keep their own retention.
func moveTables(c, k *Keyspace, change func(*Table), r *Retention) {
	// The views are included, with a retention that hides them; link restores the lists of views.
	for name, t := range k.tables {
		moved := t.copyForChange()
		change(moved)
		moved.Retention = r
		c.tables[name] = moved.Seal()
	}
	// A new list, because schemas share the old one.
	c.retained = nil
	for _, t := range k.retained {
		moved := t.copyForChange()
		change(moved)
		c.retained = append(c.retained, moved.Seal())
	}
}

// renaming changes the keyspace name in the contents of a keyspace. It copies elements, because schemas share them.
type renaming struct{ from, to string }

// contents renames the keyspace in the types, functions and aggregates of k, which is a clone. Signatures do not
// contain the keyspace.
func (n renaming) contents(k *Keyspace) {
	if n.from == n.to {
		return
	}
	// Each type is renamed with its nested types, so the order does not matter.
	for name, t := range k.types {
		k.types[name] = n.typ(t)
	}
	// Bodies cannot name a keyspace, so they stay.
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

// typ returns t with its user-defined types renamed; all belong to one keyspace. A retained table may use types that
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
			c.Type, c.Mask = n.typ(old.Type), n.mask(old.Mask)
			list[i] = &c
		}
	}
	// The recorded types of dropped columns are expanded. The list belongs to the copy.
	for i := range t.Dropped {
		d := &t.Dropped[i]
		d.Mask = n.mask(d.Mask)
		if d.Declared != nil {
			d.Declared = n.typ(d.Declared)
		}
	}
}

// mask returns a copy of a mask with the new keyspace. Native functions have no keyspace, and masks use functions of
// their own keyspace only. m may be nil.
func (n renaming) mask(m *Mask) *Mask {
	if m == nil || m.Keyspace != n.from {
		return m
	}
	mask := *m
	mask.Keyspace, mask.Types = n.to, slices.Clone(m.Types)
	for i, class := range m.Types {
		// Decoding does not validate the classes of a mask, so an invalid class is kept.
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
	// The message suggests AS.
	if s.keyspaces[c.As] != nil || IsSystem(c.As) {
		return nil, invalidf("Cannot restore keyspace '%s': another keyspace has the name '%s'; restore it with "+
			"UNDROP KEYSPACE … AS another name", k.Dropped.Name, c.As)
	}
	if err := CheckKeyspaceName(c.As); err != nil {
		return nil, err
	}
	// Tables keep their ids, so no row is read or written.
	restored := restore(k, c.As)
	restored.link()
	keyspaces, dropped := maps.Clone(s.keyspaces), maps.Clone(s.dropped)
	// Storage ids are not reused, so no later keyspace gets this hidden name.
	delete(dropped, c.Keyspace)
	keyspaces[c.As] = restored
	return s.rebuiltWith(keyspaces, dropped, s.nextStorage), nil
}

// applyPurgeKeyspaces removes dropped keyspaces with their tables, including tables that were dropped before. Dropped
// then reports their storage ids.
func applyPurgeKeyspaces(s *Schema, c *PurgeKeyspaces) (*Schema, error) {
	dropped := maps.Clone(s.dropped)
	// Hidden names are not reused, so a purge of an earlier drop cannot match. The end of the grace period is compared
	// anyway, as in PurgeTables.
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

package schema

import (
	"crypto/md5"
	"hash"
	"maps"
	"slices"
	"strings"
)

// Data that depends on all tables of a keyspace is derived from the previous keyspace, once for each change. A change
// of one of n tables copies maps of n entries, but neither sorts n names nor encodes n tables.

// digested is the id of a table and the digest of its definition. A keyspace has these in one slice: reading them from
// n tables would cost n cache misses.
type digested struct {
	id     UUID
	digest [md5.Size]byte
}

// link completes a new keyspace: it sorts its tables, sets the views of each table, and encodes the rest of the
// definition. k is not shared yet; after link it is immutable.
func (k *Keyspace) link() {
	// splice has done this if one table was changed. Other keyspaces were built, decoded, or cloned for several
	// changes.
	if !k.ordered {
		k.sorted = k.sortTables()
		k.digests = make([]digested, len(k.sorted))
		for i, t := range k.sorted {
			k.digests[i] = digested{t.ID, t.digest}
		}
	}
	// If there were no views before and after the change, no table has views.
	if !k.ordered || k.views {
		k.linkViews()
	}
	k.present = withRetained(k.sorted, k.retained)
	// A clone still has the value of the original.
	k.definition = nil
	if !IsLocalSystem(k.Name) && !IsVirtualSystem(k.Name) {
		// encodeKeyspace gets a copy, so k keeps its tables.
		bare := *k
		// Tables are hashed by their own digests.
		bare.tables, bare.sorted, bare.retained = nil, nil, nil
		k.definition = marshal(encodeKeyspace(&bare))
	}
	k.linked, k.ordered = true, false
}

// linkViews sets the views of each table. A table whose views changed is copied, because other schemas share it. Its
// digest does not depend on views, and stays.
func (k *Keyspace) linkViews() {
	// By name of the base table. Iterating over sorted makes each list sorted, so slices.Equal can compare them.
	views := map[string][]*Table{}
	linked := false
	for _, t := range k.sorted {
		if t.View != nil {
			views[t.View.Base] = append(views[t.View.Base], t)
		}
		// A table may still list views that were dropped.
		linked = linked || len(t.views) > 0
	}
	if k.views = len(views) > 0; !k.views && !linked {
		return
	}
	for i, t := range k.sorted {
		if t.View == nil && !slices.Equal(t.views, views[t.Name]) {
			with := *t
			with.views = views[t.Name]
			k.tables[t.Name], k.sorted[i] = &with, &with
		}
	}
}

// sortTables returns the tables by name. k.sorted contains the tables before the change; if none was added, their order
// is reused.
func (k *Keyspace) sortTables() []*Table {
	sorted := make([]*Table, 0, len(k.tables))
	for _, old := range k.sorted {
		if t := k.tables[old.Name]; t != nil {
			sorted = append(sorted, t)
		}
	}
	// If tables were only dropped or replaced, the list is complete; otherwise it must be sorted.
	if len(sorted) == len(k.tables) {
		return sorted
	}
	return slices.SortedFunc(maps.Values(k.tables), func(a, b *Table) int { return strings.Compare(a.Name, b.Name) })
}

// names returns the sorted names of the tables for which of returns true. It also works before link.
func (k *Keyspace) names(of func(*Table) bool) []string {
	// In a clone, sorted is the list of the original.
	sorted := k.sorted
	if !k.linked {
		sorted = k.sortTables()
	}
	names := make([]string, 0, len(sorted))
	for _, t := range sorted {
		if of(t) {
			names = append(names, t.Name)
		}
	}
	return names
}

// clone returns a copy whose maps can be modified. Tables, types and functions are shared, and so are the maps of
// comments and extensions, which are only replaced.
func (k *Keyspace) clone() *Keyspace {
	// The clone keeps the lists of the original, from which link and splice derive the new ones.
	c := *k
	c.linked, c.ordered = false, false
	c.tables = maps.Clone(k.tables)
	c.types = maps.Clone(k.types)
	c.functions, c.aggregates = maps.Clone(k.functions), maps.Clone(k.aggregates)
	return &c
}

// withTable returns k with a table added or replaced. The result is not linked, but its lists are already correct.
func (k *Keyspace) withTable(t *Table) *Keyspace {
	c := k.clone()
	c.tables[t.Name] = t
	at, found := k.position(t.Name)
	c.splice(k, at, found, []*Table{t})
	c.views = k.views || t.View != nil
	return c
}

// withoutTable returns k without one of its tables. views may be outdated until link.
func (k *Keyspace) withoutTable(name string) *Keyspace {
	c := k.clone()
	delete(c.tables, name)
	at, _ := k.position(name)
	c.splice(k, at, true, nil)
	return c
}

// position returns the index of a table in k.sorted, or where it would be inserted.
func (k *Keyspace) position(name string) (at int, found bool) {
	compare := func(x *Table, name string) int { return strings.Compare(x.Name, name) }
	return slices.BinarySearchFunc(k.sorted, name, compare)
}

// splice derives the lists of k from the lists of old: it inserts the tables of list at a position or, if replaced is
// true, replaces the table there. If old is not linked, link sorts instead.
//
//	old      a   b   c
//	add bb   a   b   bb  c
//	drop b   a   c
func (k *Keyspace) splice(old *Keyspace, at int, replaced bool, list []*Table) {
	if !old.linked {
		return
	}
	after := at
	if replaced {
		after++
	}
	// Concat allocates, because other schemas share the lists of old.
	k.sorted = slices.Concat(old.sorted[:at], list, old.sorted[after:])
	k.digests = make([]digested, 0, len(k.sorted))
	k.digests = append(k.digests, old.digests[:at]...)
	for _, t := range list {
		k.digests = append(k.digests, digested{t.ID, t.digest})
	}
	k.digests = append(k.digests, old.digests[after:]...)
	k.ordered = true
}

// writeContent hashes what the version depends on: the definition of the keyspace, and the digests of its tables by
// name.
func (k *Keyspace) writeContent(h hash.Hash) {
	_, _ = h.Write(k.definition) // a hash returns no error
	for i := range k.digests {
		_, _ = h.Write(k.digests[i].digest[:])
	}
	for _, t := range k.retained {
		_, _ = h.Write(t.digest[:])
	}
}

// with returns s with the keyspace k added or replaced, and links k.
func (s *Schema) with(k *Keyspace) *Schema { return s.withNext(k, s.nextStorage) }

// withNext is with, and sets the next storage id. All changes but drops of keyspaces end here.
func (s *Schema) withNext(k *Keyspace, next StorageID) *Schema {
	k.link()
	keyspaces := maps.Clone(s.keyspaces)
	keyspaces[k.Name] = k
	return s.rebuilt(keyspaces, next)
}

// build returns a schema of the keyspaces, with its lookups by storage id. It keeps the maps. The keyspaces must be
// linked.
func build(keyspaces, dropped map[string]*Keyspace, next StorageID) *Schema {
	return Empty().rebuiltWith(keyspaces, dropped, next)
}

// rebuilt returns a schema of the keyspaces, most of whose tables are shared with s. It keeps the map. Only keyspaces
// whose pointers differ are compared.
func (s *Schema) rebuilt(keyspaces map[string]*Keyspace, next StorageID) *Schema {
	return s.rebuiltWith(keyspaces, s.dropped, next)
}

// rebuiltWith is rebuilt, with other dropped keyspaces. It keeps both maps.
func (s *Schema) rebuiltWith(keyspaces, dropped map[string]*Keyspace, next StorageID) *Schema {
	n := &Schema{keyspaces: keyspaces, dropped: dropped, byStorage: maps.Clone(s.byStorage),
		byIndex: maps.Clone(s.byIndex), nextStorage: next, stored: s.stored, indexed: s.indexed}
	// Changed and dropped keyspaces come before new ones: a restored keyspace has the storage ids of the dropped one.
	for name, old := range s.keyspaces {
		if now := keyspaces[name]; now != old {
			n.replaceTables(old.present, now.tablesByName())
		}
	}
	for name, old := range s.dropped {
		if now := dropped[name]; now != old {
			n.replaceTables(old.present, now.tablesByName())
		}
	}
	for name, k := range keyspaces {
		if s.keyspaces[name] == nil {
			n.replaceTables(nil, k.present)
		}
	}
	for name, k := range dropped {
		if s.dropped[name] == nil {
			n.replaceTables(nil, k.present)
		}
	}
	// Last, because it reads the linked keyspaces and nextStorage.
	n.version = contentVersion(n)
	return n
}

// tablesByName returns the tables and retained tables by name; a nil keyspace has none.
func (k *Keyspace) tablesByName() []*Table {
	if k == nil {
		return nil
	}
	return k.present
}

// replaceTables updates the lookups of s from the tables old of a keyspace to the tables now, both sorted by name.
// Tables with equal pointers are skipped. s is not shared yet, but its slices are.
//
//	old   a  b   d       removed   b, d
//	now   a  b'  c       added     b', c
func (s *Schema) replaceTables(old, now []*Table) {
	var removed, added []*Table
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(old) > 0 && len(now) > 0 && old[0] == now[0]:
			old, now = old[1:], now[1:]
		// A changed table is removed here, and added below.
		case len(now) == 0 || len(old) > 0 && old[0].Name <= now[0].Name:
			delete(s.byStorage, old[0].StorageID)
			for _, ix := range old[0].indexes {
				delete(s.byIndex, ix.ID)
			}
			removed = append(removed, old[0])
			old = old[1:]
		default:
			added = append(added, now[0])
			now = now[1:]
		}
	}
	// All removals come first, because a changed table keeps its storage id.
	for _, t := range added {
		s.byStorage[t.StorageID] = t
		for _, ix := range t.indexes {
			s.byIndex[ix.ID] = t
		}
	}
	// Views store no rows. A table that gets its first index or view is added to indexed.
	s.stored = replaceIDs(s.stored, removed, added, func(t *Table) bool { return t.View == nil })
	s.indexed = replaceIDs(s.indexed, removed, added, func(t *Table) bool { return len(t.indexes)+len(t.views) > 0 })
}

// replaceIDs returns ids, ascending, without the ids of removed tables and with the ids of added tables, as far as has
// returns true for them. Other schemas share ids, so it is copied; if no id changes, it is returned as is.
//
//	ids 1024, 1025, 1027; removed 1025; added 1028   become 1024, 1027, 1028
func replaceIDs(ids []StorageID, removed, added []*Table, has func(*Table) bool) []StorageID {
	gone, come := idsOf(removed, has), idsOf(added, has)
	if slices.Equal(gone, come) {
		return ids
	}
	next := make([]StorageID, 0, len(ids)+len(come))
	for _, id := range ids {
		if len(gone) > 0 && gone[0] == id {
			gone = gone[1:]
			continue
		}
		next = append(next, id)
	}
	// New tables usually have the highest ids, so sorting is rarely needed.
	sorted := len(next) == 0 || len(come) == 0 || next[len(next)-1] < come[0]
	if next = append(next, come...); !sorted {
		slices.Sort(next)
	}
	return next
}

// idsOf returns the ids of the tables for which has returns true, ascending. tables are sorted by name, not by id.
func idsOf(tables []*Table, has func(*Table) bool) (ids []StorageID) {
	for _, t := range tables {
		if has(t) {
			ids = append(ids, t.StorageID)
		}
	}
	slices.Sort(ids)
	return ids
}

// contentVersion hashes the content that Encode encodes, on which all nodes must agree. It combines hashes of the parts
// instead of encoding everything. MD5 serves as a checksum, not for security, and has the length of a UUID.
func contentVersion(s *Schema) UUID {
	h := md5.New()
	s.writeHeader(h)
	// The omitted keyspaces are defined by each node, and may differ during an upgrade.
	for _, name := range s.KeyspaceNames() {
		if !IsLocalSystem(name) && !IsVirtualSystem(name) {
			s.keyspaces[name].writeContent(h)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.dropped)) {
		s.dropped[name].writeContent(h)
	}
	return hashUUID([md5.Size]byte(h.Sum(nil)))
}

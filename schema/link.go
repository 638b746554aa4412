package schema

import (
	"crypto/md5"
	"hash"
	"maps"
	"slices"
	"strings"
)

// What depends on all tables of a keyspace is computed once, when a change has made it, and from what the keyspace had before: a change
// of one of n tables copies maps of n entries, and neither sorts n names nor encodes n tables.

// link completes a new keyspace: it sorts its tables, gives each its present views, and hashes what is not a table.
func (k *Keyspace) link() {
	k.sorted = k.sortTables()
	views := map[string][]*Table{}
	linked := false
	for _, t := range k.sorted {
		if t.View != nil {
			views[t.View.Base] = append(views[t.View.Base], t)
		}
		linked = linked || len(t.views) > 0
	}
	if linked || len(views) > 0 {
		for i, t := range k.sorted {
			if t.View == nil && !slices.Equal(t.views, views[t.Name]) {
				with := *t
				with.views = views[t.Name]
				k.tables[t.Name], k.sorted[i] = &with, &with
			}
		}
	}
	k.definition = nil
	if !IsLocalSystem(k.Name) && !IsVirtualSystem(k.Name) {
		bare := *k
		bare.tables, bare.sorted = nil, nil
		k.definition = marshal(encodeKeyspace(&bare))
	}
	k.linked = true
}

// sortTables returns the tables by name. k.sorted contains those before the change, and those that withTable has added.
func (k *Keyspace) sortTables() []*Table {
	sorted := make([]*Table, 0, len(k.tables))
	for _, old := range k.sorted {
		if t := k.tables[old.Name]; t != nil {
			sorted = append(sorted, t)
		}
	}
	if len(sorted) == len(k.tables) {
		return sorted
	}
	return slices.SortedFunc(maps.Values(k.tables), func(a, b *Table) int { return strings.Compare(a.Name, b.Name) })
}

// names returns the names of the tables for which of returns true, sorted.
func (k *Keyspace) names(of func(*Table) bool) []string {
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

// clone returns a copy whose maps may be changed.
func (k *Keyspace) clone() *Keyspace {
	c := *k
	c.linked = false
	c.tables = maps.Clone(k.tables)
	c.types = maps.Clone(k.types)
	c.functions, c.aggregates = maps.Clone(k.functions), maps.Clone(k.aggregates)
	return &c
}

func (k *Keyspace) withTable(t *Table) *Keyspace {
	c := k.clone()
	c.tables[t.Name] = t
	at, found := slices.BinarySearchFunc(k.sorted, t.Name, func(x *Table, name string) int { return strings.Compare(x.Name, name) })
	if !found {
		c.sorted = slices.Insert(slices.Clone(k.sorted), at, t)
	}
	return c
}

// writeContent writes what the version of a schema depends on.
func (k *Keyspace) writeContent(h hash.Hash) {
	_, _ = h.Write(k.definition) // a hash returns no error
	for _, t := range k.sorted {
		_, _ = h.Write(t.digest[:])
	}
}

// with returns s with k, which must be new, added or replaced.
func (s *Schema) with(k *Keyspace) *Schema { return s.withNext(k, s.nextStorage) }

// withNext is with, and sets the next number in storage.
func (s *Schema) withNext(k *Keyspace, next StorageID) *Schema {
	k.link()
	keyspaces := maps.Clone(s.keyspaces)
	keyspaces[k.Name] = k
	return s.rebuilt(keyspaces, next)
}

// build returns a schema of the keyspaces and its indexes. It keeps the map.
func build(keyspaces map[string]*Keyspace, next StorageID) *Schema {
	return Empty().rebuilt(keyspaces, next)
}

// rebuilt returns a schema of the keyspaces, most of whose tables are those of s. It keeps the map.
func (s *Schema) rebuilt(keyspaces map[string]*Keyspace, next StorageID) *Schema {
	n := &Schema{keyspaces: keyspaces, byStorage: maps.Clone(s.byStorage), byIndex: maps.Clone(s.byIndex), nextStorage: next}
	for name, old := range s.keyspaces {
		if now := keyspaces[name]; now != old {
			n.replaceTables(old.sorted, now.tablesByName())
		}
	}
	for name, k := range keyspaces {
		if s.keyspaces[name] == nil {
			n.replaceTables(nil, k.sorted)
		}
	}
	n.version = contentVersion(n)
	return n
}

func (k *Keyspace) tablesByName() []*Table {
	if k == nil {
		return nil
	}
	return k.sorted
}

// replaceTables changes the indexes from tables of a keyspace to others, both sorted by name. Tables that are the same are skipped.
func (s *Schema) replaceTables(old, now []*Table) {
	var added []*Table
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(old) > 0 && len(now) > 0 && old[0] == now[0]:
			old, now = old[1:], now[1:]
		case len(now) == 0 || len(old) > 0 && old[0].Name <= now[0].Name:
			delete(s.byStorage, old[0].StorageID)
			for _, ix := range old[0].indexes {
				delete(s.byIndex, ix.ID)
			}
			old = old[1:]
		default:
			added = append(added, now[0])
			now = now[1:]
		}
	}
	for _, t := range added {
		s.byStorage[t.StorageID] = t
		for _, ix := range t.indexes {
			s.byIndex[ix.ID] = t
		}
	}
}

// contentVersion hashes the output of Encode, on which all nodes must agree.
func contentVersion(s *Schema) UUID {
	h := md5.New()
	s.writeHeader(h)
	for _, name := range s.KeyspaceNames() {
		if !IsLocalSystem(name) && !IsVirtualSystem(name) {
			s.keyspaces[name].writeContent(h)
		}
	}
	return hashUUID([md5.Size]byte(h.Sum(nil)))
}

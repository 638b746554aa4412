package schema

import (
	"maps"
	"slices"
)

// StorageID is the number of a table or index in storage. It is short, and not used again after a drop.
type StorageID uint32

// Schema contains all keyspaces at one point in time. It is immutable: methods may be called concurrently, and results
// must not be modified.
type Schema struct {
	// By name.
	keyspaces map[string]*Keyspace
	// The keyspaces that were dropped and can be restored, by hidden name. nil is empty.
	dropped map[string]*Keyspace
	// Tables and views.
	byStorage map[StorageID]*Table
	byIndex   map[StorageID]*Table // the tables of the indexes with these ids
	// Maps and lists are changed by replacing them (rebuilt).
	stored  []StorageID // the tables that store rows, ascending; schemas share it
	indexed []StorageID // the tables with indexes or views, likewise
	// The number of the next table, view or index.
	nextStorage StorageID
	// Computed by contentVersion.
	version UUID
}

// FirstStorageID is the first number of user tables. Lower numbers are for system tables, which every version of the
// program must number alike.
const FirstStorageID StorageID = 1024

// Empty returns a schema without any keyspace, not even system keyspaces. Its version is zero.
func Empty() *Schema {
	return &Schema{keyspaces: map[string]*Keyspace{}, byStorage: map[StorageID]*Table{},
		byIndex:     map[StorageID]*Table{},
		nextStorage: FirstStorageID}
}

// Version returns a hash of the content. It is equal on all nodes that have the same schema. Clients see it as
// schema_version, by which drivers determine whether nodes agree.
func (s *Schema) Version() UUID { return s.version }

// Keyspace returns the keyspace with this name, or nil.
func (s *Schema) Keyspace(name string) *Keyspace { return s.keyspaces[name] }

// KeyspaceNames returns the names of all keyspaces, sorted.
func (s *Schema) KeyspaceNames() []string { return slices.Sorted(maps.Keys(s.keyspaces)) }

// Table returns the table or the materialized view with this name, or nil. Names are as stored: unquoted, with case.
func (s *Schema) Table(keyspace, name string) *Table {
	if k := s.keyspaces[keyspace]; k != nil {
		return k.Table(name)
	}
	return nil
}

// TableByStorage returns the table with this number in storage, or nil. Materialized views, which store no rows, have
// numbers, too.
func (s *Schema) TableByStorage(id StorageID) *Table { return s.byStorage[id] }

// Dropped reports whether the table or index with this number was dropped. This never becomes false again, because
// numbers are not used again. A number that this schema has not assigned yet belongs to an element that is created
// later and is not dropped, nor is the number of a system table that this version does not have.
func (s *Schema) Dropped(id StorageID) bool {
	return id >= FirstStorageID && id < s.nextStorage && s.byStorage[id] == nil && s.byIndex[id] == nil
}

// NameOf returns the name of a table as operators know it: keyspace.table. If no table has the id, the text states
// that.
func (s *Schema) NameOf(id StorageID) string {
	// Also for views, whose numbers are in entries of their indexes.
	if t := s.byStorage[id]; t != nil {
		return t.Keyspace + "." + t.Name
	}
	return "(dropped)"
}

// StorageIDs returns the numbers of all stored tables, in ascending order. Materialized views are not among them.
// Callers must not modify the slice.
func (s *Schema) StorageIDs() []StorageID { return s.stored }

// IndexedIDs returns the numbers of the tables that have indexes or materialized views, in ascending order. Callers
// must not modify the slice.
func (s *Schema) IndexedIDs() []StorageID { return s.indexed }

// DroppedSince returns the stored tables of old, an earlier schema, that s does not have, ascending. complete is false
// if tables or indexes were also created and dropped after old: their numbers are not in the list. The caller must then
// look for data of all dropped numbers.
//
//	old   stored 1024, 1025                            nextStorage 1026
//	s     stored 1024, 1026                            nextStorage 1027   1025, complete
//	s     stored 1024; 1026 was created and dropped    nextStorage 1027   1025, not complete
func (s *Schema) DroppedSince(old *Schema) (ids []StorageID, complete bool) {
	// Both lists are ascending, so that one pass is enough.
	now := s.stored
	for _, id := range old.stored {
		for len(now) > 0 && now[0] < id {
			now = now[1:]
		}
		if (len(now) == 0 || now[0] != id) && s.Dropped(id) {
			ids = append(ids, id)
		}
	}
	// Numbers that were assigned after old. The loop is as long as their number.
	for id := old.nextStorage; id < s.nextStorage; id++ {
		if s.Dropped(id) {
			return ids, false
		}
	}
	return ids, true
}

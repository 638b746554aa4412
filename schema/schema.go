package schema

import (
	"maps"
	"slices"
)

// StorageID is the short id of a table or index in storage. It is not reused after a drop.
type StorageID uint32

// Schema contains all keyspaces at one point in time. It is immutable: methods may be called concurrently, and results
// must not be modified.
type Schema struct {
	// keyspaces by name.
	keyspaces map[string]*Keyspace
	// dropped contains the dropped keyspaces that can be restored, by hidden name; may be nil.
	dropped map[string]*Keyspace
	// byStorage contains tables and views.
	byStorage map[StorageID]*Table
	byIndex   map[StorageID]*Table // the tables of the indexes with these ids
	// Maps and lists are replaced, never modified (rebuilt).
	stored  []StorageID // the tables that store rows, ascending; schemas share it
	indexed []StorageID // the tables with indexes or views, likewise
	// nextStorage is the id of the next table, view or index.
	nextStorage StorageID
	// version is computed by contentVersion.
	version UUID
}

// FirstStorageID is the first id of user tables. Lower ids are for system tables, which have the same ids in every
// version.
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

// Table returns the table or materialized view with this name, or nil. Names are as stored: unquoted and
// case-sensitive.
func (s *Schema) Table(keyspace, name string) *Table {
	if k := s.keyspaces[keyspace]; k != nil {
		return k.Table(name)
	}
	return nil
}

// TableByStorage returns the table with this storage id, or nil. Materialized views, which store no rows, have ids as
// well.
func (s *Schema) TableByStorage(id StorageID) *Table { return s.byStorage[id] }

// Dropped reports whether the table or index with this id was dropped. Once true it stays true, because ids are not
// reused. It is false for ids that this schema has not assigned yet, and for system tables that this version does not
// have.
func (s *Schema) Dropped(id StorageID) bool {
	return id >= FirstStorageID && id < s.nextStorage && s.byStorage[id] == nil && s.byIndex[id] == nil
}

// NameOf returns the name of a table as keyspace.table, for operators. If no table has the id, the result says so.
func (s *Schema) NameOf(id StorageID) string {
	// Includes views, because their index entries contain their ids.
	if t := s.byStorage[id]; t != nil {
		return t.Keyspace + "." + t.Name
	}
	return "(dropped)"
}

// StorageIDs returns the ids of all stored tables, ascending, without materialized views. Callers must not modify the
// slice.
func (s *Schema) StorageIDs() []StorageID { return s.stored }

// IndexedIDs returns the ids of the tables with indexes or materialized views, ascending. Callers must not modify the
// slice.
func (s *Schema) IndexedIDs() []StorageID { return s.indexed }

// DroppedSince returns the ids of the stored tables that old, an earlier schema, has and s does not, ascending.
// complete is false if other tables or indexes were created and dropped after old: their ids are not in the list, so
// the caller must search for data of all dropped ids.
//
//	old   stored 1024, 1025                            nextStorage 1026
//	s     stored 1024, 1026                            nextStorage 1027   1025, complete
//	s     stored 1024; 1026 was created and dropped    nextStorage 1027   1025, not complete
func (s *Schema) DroppedSince(old *Schema) (ids []StorageID, complete bool) {
	// Both lists are ascending, so one pass suffices.
	now := s.stored
	for _, id := range old.stored {
		for len(now) > 0 && now[0] < id {
			now = now[1:]
		}
		if (len(now) == 0 || now[0] != id) && s.Dropped(id) {
			ids = append(ids, id)
		}
	}
	// Ids that were assigned after old.
	for id := old.nextStorage; id < s.nextStorage; id++ {
		if s.Dropped(id) {
			return ids, false
		}
	}
	return ids, true
}

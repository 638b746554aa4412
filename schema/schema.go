package schema

import (
	"maps"
	"slices"
)

// StorageID is the number a table is stored under: short, never used again after a drop.
type StorageID uint32

// Schema is all keyspaces at one moment. It is immutable.
type Schema struct {
	keyspaces   map[string]*Keyspace
	byStorage   map[StorageID]*Table
	nextStorage StorageID
	version     UUID
}

// FirstStorageID is the first number given to a user's table; those below are for system tables.
const FirstStorageID StorageID = 1024

// Empty is the schema of a new cluster: no keyspace, not even the system's.
func Empty() *Schema {
	return &Schema{keyspaces: map[string]*Keyspace{}, byStorage: map[StorageID]*Table{}, nextStorage: FirstStorageID}
}

// Version is a hash of the content, equal on all nodes that have the same schema.
func (s *Schema) Version() UUID { return s.version }

// Keyspace finds a keyspace; nil when there is none.
func (s *Schema) Keyspace(name string) *Keyspace { return s.keyspaces[name] }

// KeyspaceNames are the names of all keyspaces, sorted.
func (s *Schema) KeyspaceNames() []string { return slices.Sorted(maps.Keys(s.keyspaces)) }

// Table finds a table; nil when there is none.
func (s *Schema) Table(keyspace, name string) *Table {
	if k := s.keyspaces[keyspace]; k != nil {
		return k.Table(name)
	}
	return nil
}

// TableByStorage finds a table by the number it is stored under; nil when there is none.
func (s *Schema) TableByStorage(id StorageID) *Table { return s.byStorage[id] }

// Dropped says whether the table of a number was dropped. That never changes back: a number is not used again. A number
// that this schema has not reached yet belongs to a table that is created later, and is not dropped; nor is that of a
// system table which this version does not have.
func (s *Schema) Dropped(id StorageID) bool {
	return id >= FirstStorageID && id < s.nextStorage && s.byStorage[id] == nil
}

// NameOf is the name of the table of a storage id, as operators know it: keyspace.table. Of an id that no table has,
// it says so.
func (s *Schema) NameOf(id StorageID) string {
	if t := s.byStorage[id]; t != nil {
		return t.Keyspace + "." + t.Name
	}
	return "(dropped)"
}

// StorageIDs are the numbers of all stored tables, in ascending order.
func (s *Schema) StorageIDs() []StorageID { return slices.Sorted(maps.Keys(s.byStorage)) }

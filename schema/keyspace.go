package schema

import (
	"maps"
	"slices"

	"cqld/cql/types"
	"cqld/ring"
)

// Keyspace is a name for tables and types that are replicated alike. It is immutable.
type Keyspace struct {
	Name          string
	Replication   ring.Replication
	DurableWrites bool
	Virtual       bool // its tables are made up when read
	tables        map[string]*Table
	types         map[string]*types.Type // not frozen
}

// Table finds a table; nil when there is none.
func (k *Keyspace) Table(name string) *Table { return k.tables[name] }

// TableNames are the names of the tables, sorted.
func (k *Keyspace) TableNames() []string { return slices.Sorted(maps.Keys(k.tables)) }

// Type finds a user-defined type; nil when there is none.
func (k *Keyspace) Type(name string) *types.Type { return k.types[name] }

// TypeNames are the names of the user-defined types, sorted.
func (k *Keyspace) TypeNames() []string { return slices.Sorted(maps.Keys(k.types)) }

package schema

import (
	"maps"
	"slices"
	"strings"

	"cqld/ring"
	"cqld/types"
)

// Keyspace is a name for tables and types that are replicated alike. It is immutable.
type Keyspace struct {
	Name          string
	Replication   ring.Replication
	DurableWrites bool
	// Virtual is what Cassandra calls a virtual keyspace: it is listed in system_virtual_schema and
	// not in system_schema. Tables of other system keyspaces may be made up when read, too: those
	// have Table.Virtual.
	Virtual bool
	// Extensions are the properties that other protocols than CQL store with a keyspace. CQL does not show them. The map is immutable.
	Extensions map[string][]byte
	tables     map[string]*Table
	types      map[string]*types.Type // not frozen
}

// NewKeyspace is a keyspace with nothing in it.
func NewKeyspace(name string, r ring.Replication, durable bool) *Keyspace {
	return &Keyspace{Name: name, Replication: r, DurableWrites: durable,
		tables: map[string]*Table{}, types: map[string]*types.Type{}}
}

// Table finds a table; nil when there is none.
func (k *Keyspace) Table(name string) *Table { return k.tables[name] }

// TableNames are the names of the tables, sorted.
func (k *Keyspace) TableNames() []string { return slices.Sorted(maps.Keys(k.tables)) }

// Type finds a user-defined type; nil when there is none.
func (k *Keyspace) Type(name string) *types.Type { return k.types[name] }

// TypeNames are the names of the user-defined types, sorted.
func (k *Keyspace) TypeNames() []string { return slices.Sorted(maps.Keys(k.types)) }

// IsSystem says whether a name belongs to the system: no user may have a keyspace of this name.
func IsSystem(keyspace string) bool {
	return IsLocalSystem(keyspace) || IsReplicatedSystem(keyspace) || IsVirtualSystem(keyspace)
}

// IsLocalSystem tells the system keyspaces that every node has for itself.
func IsLocalSystem(keyspace string) bool { return keyspace == "system" || keyspace == "system_schema" }

// IsVirtualSystem tells the system keyspaces that Cassandra calls virtual.
func IsVirtualSystem(keyspace string) bool {
	return keyspace == "system_views" || keyspace == "system_virtual_schema"
}

// IsReplicatedSystem tells the system keyspaces whose data is replicated like a user's.
func IsReplicatedSystem(keyspace string) bool {
	rest, ok := strings.CutPrefix(keyspace, "system_")
	return ok && (rest == "traces" || rest == "auth" || rest == "distributed")
}

// checkOwnDefinition refuses changes to the keyspaces that the program itself defines.
func (k *Keyspace) checkOwnDefinition() error {
	if IsLocalSystem(k.Name) || IsVirtualSystem(k.Name) {
		return invalidf("%s keyspace is not user-modifiable.", k.Name)
	}
	return nil
}

// clone is a copy whose maps may be changed.
func (k *Keyspace) clone() *Keyspace {
	c := *k
	c.tables = maps.Clone(k.tables)
	c.types = maps.Clone(k.types)
	return &c
}

func (k *Keyspace) withTable(t *Table) *Keyspace {
	c := k.clone()
	c.tables[t.Name] = t
	return c
}

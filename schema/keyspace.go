package schema

import (
	"maps"
	"slices"
	"strings"

	"cqld/ring"
	"cqld/types"
)

// Keyspace is a namespace of tables, types and functions with the same replication. It is immutable once it is part of
// a Schema. Before link, it belongs to the function that builds it.
type Keyspace struct {
	Name        string
	Replication ring.Replication
	// DurableWrites false means that writes to the keyspace's tables are not synced to disk (package replica).
	DurableWrites bool
	// Virtual marks a keyspace that Cassandra calls virtual: it is listed in system_virtual_schema and not in
	// system_schema. Tables of other system keyspaces may be computed as well; they have Table.Virtual.
	Virtual bool
	// Extensions are properties that protocols other than CQL store with a keyspace. CQL does not show them. The map is
	// immutable.
	Extensions map[string][]byte
	// Dropped is set while the keyspace is dropped and can be restored. Name is then its hidden name.
	Dropped *DroppedKeyspace
	// tables contains tables and views, by name.
	tables map[string]*Table
	types  map[string]*types.Type // not frozen
	// retained contains the dropped tables that can be restored, in the order of their drops. The slice is replaced,
	// never modified.
	retained []*Table
	remarks
	routines

	// link computes the following fields; until then, a clone has the values of the original.
	linked     bool       // link has set what follows
	sorted     []*Table   // the tables and views, by name
	present    []*Table   // sorted and retained, by name and number; sorted itself without retained tables
	digests    []digested // of the tables of sorted
	views      bool       // some tables are views
	ordered    bool       // sorted; digests and views match the tables although link has not run yet
	definition []byte     // the keyspace without its tables, encoded; nil if the schema's version has no part of it
}

// NewKeyspace returns an empty keyspace. It must be linked before a Schema contains it.
func NewKeyspace(name string, r ring.Replication, durable bool) *Keyspace {
	return &Keyspace{Name: name, Replication: r, DurableWrites: durable,
		tables: map[string]*Table{}, types: map[string]*types.Type{},
		routines: routines{functions: map[string]*Function{}, aggregates: map[string]*Aggregate{}}}
}

// replicate sets the replication of k, which is not linked yet, and of its tables. Each table has a copy, so each is
// replaced. Their definitions (digests) do not change.
func replicate(k *Keyspace, r ring.Replication) {
	k.Replication = r
	for name, t := range k.tables {
		moved := *t // columns and indexes do not change, so they are shared
		moved.Replication = r
		k.tables[name] = &moved
	}
	// Dropped tables follow the replication of their keyspace. The list is shared with the previous keyspace.
	k.retained = slices.Clone(k.retained)
	for i, t := range k.retained {
		moved := *t
		moved.Replication = r
		k.retained[i] = &moved
	}
}

// WithEverywhere returns s with r as the replication of all keyspaces with EverywhereStrategy, also dropped ones. r is
// that strategy with the numbers of members (ring.EverywhereOn). It returns s if nothing changes.
func (s *Schema) WithEverywhere(r ring.Replication) *Schema {
	keyspaces, dropped := maps.Clone(s.keyspaces), maps.Clone(s.dropped)
	changed := false
	for _, all := range [...]map[string]*Keyspace{keyspaces, dropped} {
		for name, k := range all {
			if k.Replication.Class != ring.Everywhere || k.Replication.Equal(r) {
				continue
			}
			c := k.clone()
			replicate(c, r)
			c.link()
			all[name], changed = c, true
		}
	}
	if !changed {
		return s
	}
	return s.rebuiltWith(keyspaces, dropped, s.nextStorage)
}

// Table returns the table or materialized view with this name, or nil. Names are case-sensitive.
func (k *Keyspace) Table(name string) *Table { return k.tables[name] }

// Tables returns the tables and materialized views of a keyspace in a Schema, by name. Callers must not modify the
// slice.
func (k *Keyspace) Tables() []*Table { return k.sorted }

// TableNames returns the sorted names of the tables, without materialized views.
func (k *Keyspace) TableNames() []string {
	return k.names(func(t *Table) bool { return t.View == nil })
}

// TableCount returns the number of tables, without materialized views. It takes constant time for keyspaces without
// views.
func (k *Keyspace) TableCount() int {
	if k.linked && !k.views {
		return len(k.tables)
	}
	return len(k.TableNames())
}

// ViewNames returns the names of the materialized views, sorted.
func (k *Keyspace) ViewNames() []string { return k.names(func(t *Table) bool { return t.View != nil }) }

// allNames returns the names of the tables and of the materialized views, sorted.
func (k *Keyspace) allNames() []string { return k.names(func(*Table) bool { return true }) }

// Type returns the user-defined type with this name, or nil.
func (k *Keyspace) Type(name string) *types.Type { return k.types[name] }

// TypeNames returns the names of the user-defined types, sorted.
func (k *Keyspace) TypeNames() []string { return slices.Sorted(maps.Keys(k.types)) }

// IsSystem reports whether a name is reserved for the system: users cannot create a keyspace with this name. The list
// of Cassandra's names is fixed: other names that begin with system_ are available to users.
func IsSystem(keyspace string) bool {
	return IsLocalSystem(keyspace) || IsReplicatedSystem(keyspace) || IsVirtualSystem(keyspace)
}

// IsLocalSystem reports whether a keyspace is a system keyspace that every node stores locally. Each node defines it
// for itself.
func IsLocalSystem(keyspace string) bool { return keyspace == "system" || keyspace == "system_schema" }

// IsVirtualSystem reports whether a keyspace is a system keyspace that Cassandra calls virtual: its rows are computed
// when they are read.
func IsVirtualSystem(keyspace string) bool {
	return keyspace == "system_views" || keyspace == "system_virtual_schema"
}

// IsReplicatedSystem reports whether a keyspace is a system keyspace that is replicated like a user keyspace. It is
// part of the schema on which nodes agree.
func IsReplicatedSystem(keyspace string) bool {
	rest, ok := strings.CutPrefix(keyspace, "system_")
	return ok && (rest == "traces" || rest == "auth" || rest == "distributed")
}

// checkOwnDefinition rejects changes of the keyspaces that the program itself defines. They are not part of the schema
// on which nodes agree, and Encode omits them.
//
//	system, system_schema, system_views, system_virtual_schema   refused
//	system_auth, system_distributed, system_traces               passed: nodes agree on them
func (k *Keyspace) checkOwnDefinition() error {
	if IsLocalSystem(k.Name) || IsVirtualSystem(k.Name) {
		return invalidf("%s keyspace is not user-modifiable.", k.Name)
	}
	return nil
}

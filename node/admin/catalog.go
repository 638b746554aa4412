package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cqld/cluster"
	"cqld/node/control"
	"cqld/ring"
	"cqld/schema"
)

// Catalog finds the tables and keyspaces that operators name. It returns names that exist, or errors that say which one
// does not. Names are compared as CQL stores them: in lower case unless they were quoted when the table was created.
type Catalog struct{ cluster *cluster.Cluster }

// Tables returns the tables that an operator names and that this node stores; it excludes virtual tables. A keyspace or
// table that does not exist is an error, so that an operator learns of a typing error. The result is a snapshot: a
// table may be dropped before it is used, which dropped recognizes.
func (c Catalog) Tables(a control.TablesArgs) ([]*schema.Table, error) {
	s := c.cluster.Metadata().Schema
	// Otherwise an operation on these tables would be one on all tables.
	if a.Keyspace == "" && len(a.Tables) > 0 {
		return nil, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("the tables %s have no keyspace", strings.Join(a.Tables, ", "))}
	}
	// All tables with storage on this node, in the order of their names.
	if a.Keyspace == "" {
		var all []*schema.Table
		for _, id := range s.StorageIDs() {
			// Dropped tables have no name by which an operator could mean them.
			if t := s.TableByStorage(id); !t.Virtual && t.Retention == nil {
				all = append(all, t)
			}
		}
		// The order is by keyspace and table, because the ids have no meaning for operators.
		slices.SortFunc(all, func(a, b *schema.Table) int {
			return cmp.Or(strings.Compare(a.Keyspace, b.Keyspace), strings.Compare(a.Name, b.Name))
		})
		return all, nil
	}
	k := s.Keyspace(a.Keyspace)
	if k == nil {
		return nil, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("Keyspace [%s] does not exist.", a.Keyspace)}
	}
	names := a.Tables
	// Tables that are not named are all tables of the keyspace.
	if len(names) == 0 {
		names = k.TableNames()
	}
	var out []*schema.Table
	for _, name := range names {
		// A name of the arguments must exist; a name of the keyspace always does.
		t := k.Table(name)
		if t == nil {
			return nil, noTable(a.Keyspace, name)
		}
		// A virtual table in the list is an error only if it was named.
		if !t.Virtual {
			out = append(out, t)
		} else if len(a.Tables) > 0 {
			return nil, &control.Error{Code: control.Invalid,
				Message: fmt.Sprintf("%s.%s is a virtual table: it has no data", a.Keyspace, name)}
		}
	}
	return out, nil
}

// retained returns the dropped tables that an operator names, and that can be restored: tables that were dropped
// themselves, and tables of dropped keyspaces. Several may have the same names. Without tables, all tables of the
// keyspace are named, and without a keyspace, all tables.
func (c Catalog) retained(a control.TablesArgs) (tables []*schema.Table) {
	// All results are of one schema.
	s := c.schema()
	for _, name := range s.StoredKeyspaceNames() {
		k := s.StoredKeyspace(name)
		if a.Keyspace != "" && a.Keyspace != nameOf(k) {
			continue
		}
		for _, t := range k.StoredTables() {
			if t.Retention != nil && (len(a.Tables) == 0 || slices.Contains(a.Tables, t.Name)) {
				tables = append(tables, t)
			}
		}
	}
	return tables
}

// nameOf returns the name of a keyspace, also of a dropped one, as statements use or used it.
func nameOf(k *schema.Keyspace) string {
	if k.Dropped != nil {
		return k.Dropped.Name
	}
	return k.Name
}

// one returns the table of an operation. A virtual table is an error here, because nothing can be done with it.
func (c Catalog) one(a control.TableArgs) (*schema.Table, error) {
	tables, err := c.Tables(control.TablesArgs{Keyspace: a.Keyspace, Tables: []string{a.Table}})
	if err != nil {
		return nil, err
	}
	return tables[0], nil
}

// noTable returns the error of a table that does not exist. Its code is Invalid: the operator has named the table.
func noTable(keyspace, table string) error {
	return &control.Error{Code: control.Invalid, Message: fmt.Sprintf("table %s.%s does not exist", keyspace, table)}
}

// replicated finds a keyspace that is replicated over the ring. A local keyspace has no replicas that an operation
// could involve.
func replicated(all *schema.Schema, name string) (*schema.Keyspace, error) {
	k := all.Keyspace(name)
	if k == nil {
		// The message is nodetool's, with its comma.
		return nil, &control.Error{Code: control.Invalid, Message: fmt.Sprintf("The keyspace %s, does not exist", name)}
	}
	if k.Replication.Class == ring.Local {
		return nil, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("keyspace %s is local to each node", name)}
	}
	return k, nil
}

// schema returns the newest schema that this node has applied.
func (c Catalog) schema() *schema.Schema { return c.cluster.Metadata().Schema }

// dropped reports whether an operation failed because its table was dropped. An operation fails with another error if
// its table was dropped while it ran.
func (c Catalog) dropped(id schema.StorageID, err error) bool {
	return err != nil && c.schema().Dropped(id)
}

// targetOf describes tables for operators. It is shown in lists of jobs, so the names of many tables are left out.
func targetOf(a control.TablesArgs) string {
	switch {
	case a.Keyspace == "":
		return "all keyspaces"
	case len(a.Tables) == 0:
		return a.Keyspace
	case len(a.Tables) == 1:
		return a.Keyspace + "." + a.Tables[0]
	}
	return fmt.Sprintf("%s (%d tables)", a.Keyspace, len(a.Tables))
}

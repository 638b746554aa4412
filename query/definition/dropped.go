package definition

import (
	"time"

	"cqld/cql"
	"cqld/query/guardrail"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/schema/refused"
)

// dropping defines statements about tables that were dropped and can be restored. They have no names in the schema, and
// are found by the names that they had.
type dropping struct{ *Definer }

// retention returns how long a table that is dropped now can be restored; nil means that it cannot.
func (d dropping) retention() *schema.Retention {
	// A grace below a second would be over before the answer.
	if d.DropGrace == nil || d.DropGrace() < time.Second {
		return nil
	}
	// Seconds are precise enough, and are what dropped_tables shows.
	now := d.NowMicros() / 1e6
	return &schema.Retention{Dropped: now, Until: now + int64(d.DropGrace()/time.Second)}
}

// undrop defines UNDROP TABLE. Of several dropped tables with the name, the last one is restored, or the one with
// the id.
func (d dropping) undrop(stmt *cql.UndropTable) Definition {
	// The restored table is a new one for clients, so that the statement needs the same as CREATE TABLE.
	keyspace, found, err := d.named(stmt.Table, stmt.Properties, "CREATE")
	if err != nil {
		return refuse(err)
	}
	if len(found) == 0 {
		return refuse(d.notFound(keyspace, stmt.Table.Name))
	}
	// Apply checks the new name: a table may be created in between.
	return Definition{
		Change: &schema.UndropTable{Keyspace: keyspace, Table: found[len(found)-1].StorageID, As: stmt.As},
		Event: schema.Event{Change: schema.Created, Target: schema.TargetTable, Keyspace: keyspace,
			Name: stmt.As}}
}

// purge defines PURGE TABLE. It removes all dropped tables with the name, or the one with the id. Clients do not
// see it, so that it has no event.
func (d dropping) purge(stmt *cql.PurgeTable) Definition {
	keyspace, found, err := d.named(stmt.Table, stmt.Properties, "DROP")
	if err != nil {
		return refuse(err)
	}
	if len(found) == 0 {
		// Nothing changes, and the client gets an empty result.
		if stmt.IfExists {
			return Definition{}
		}
		return refuse(d.notFound(keyspace, stmt.Table.Name))
	}
	// The ends of their graces: a table that is restored and dropped again meanwhile stays.
	purge := &schema.PurgeTables{Tables: map[schema.StorageID]int64{}}
	for _, t := range found {
		purge.Tables[t.StorageID] = t.Retention.Until
	}
	return Definition{Change: purge}
}

// named returns the keyspace of a name, and the dropped tables that have the name and, if given, the id, in the order
// of their drops. permission is for the message about system keyspaces.
func (d dropping) named(n cql.QualifiedName, given cql.Properties, permission string) (keyspace string,
	found []*schema.Table, err error) {
	if keyspace, err = d.KeyspaceOf(n); err != nil {
		return "", nil, err
	}
	if err = mayChange(keyspace, permission, "table "+keyspace+"."+n.Name); err != nil {
		return "", nil, err
	}
	// Cassandra's name of the property in CREATE TABLE.
	p, err := newProperties(given, "id")
	if err != nil {
		return "", nil, err
	}
	text, hasID, err := p.text("id")
	if err != nil {
		return "", nil, err
	}
	var id schema.UUID
	if hasID {
		if id, err = schema.ParseUUID(text); err != nil {
			return "", nil, invalid.Configf("Invalid table id")
		}
	}
	// Dropped tables stay with their keyspace when it is dropped.
	k := d.Schema.Keyspace(keyspace)
	if dropped, _ := d.keyspacesNamed(keyspace, nil, permission); k == nil && len(dropped) > 0 {
		return "", nil, invalid.Errorf("Keyspace '%s' was dropped: restore it first, with UNDROP KEYSPACE", keyspace)
	}
	if k == nil {
		return "", nil, &refused.NotFound{Keyspace: keyspace}
	}
	// Several tables with one name may have been dropped. Names are compared with case.
	for _, t := range k.Retained() {
		if t.Name == n.Name && (!hasID || t.ID == id) {
			found = append(found, t)
		}
	}
	// Retained has the order of the changes, which does not depend on the clocks of nodes.
	return keyspace, found, nil
}

// notFound returns the error for a name, or a name and an id, that no dropped table has.
func (d dropping) notFound(keyspace, name string) error {
	// The usual reason is that another client has restored it.
	if d.Schema.Table(keyspace, name) != nil {
		return invalid.Errorf("Table '%s.%s' exists, and no dropped table with this name can be restored", keyspace,
			name)
	}
	return invalid.Errorf("No dropped table '%s.%s' can be restored: it never existed, drop_grace was 0, or its grace "+
		"has ended (SELECT * FROM system_views.dropped_tables)", keyspace, name)
}

// undrop checks UNDROP TABLE: the restored table counts as a new one.
func (g guarding) undrop(c *schema.UndropTable) error {
	return g.Within(guardrail.Tables, g.tables()+1, c.As)
}

// tables returns the number of tables of users.
func (g guarding) tables() (n int64) {
	for _, name := range g.schema.KeyspaceNames() {
		if !schema.IsSystem(name) {
			n += int64(g.schema.Keyspace(name).TableCount())
		}
	}
	return n
}

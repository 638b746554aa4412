package definition

import (
	"time"

	"cqld/cql"
	"cqld/query/guardrail"
	"cqld/query/invalid"
	"cqld/schema"
	"cqld/schema/refused"
)

// dropping defines statements about dropped tables that can still be restored. The schema keeps them under ids; they
// are found by their former names.
type dropping struct{ *Definer }

// retention returns how long a table that is dropped now can be restored; nil means that it cannot.
func (d dropping) retention() *schema.Retention {
	// A grace period below a second would expire before the client receives the response.
	if d.DropGrace == nil || d.DropGrace() < time.Second {
		return nil
	}
	// Seconds are precise enough, and are what dropped_tables shows.
	now := d.NowMicros() / 1e6
	return &schema.Retention{Dropped: now, Until: now + int64(d.DropGrace()/time.Second)}
}

// Truncation returns the change that empties a table and retains its rows, or nil if they cannot be retained.
func Truncation(d *Definer, t *schema.Table) *schema.TruncateTable {
	r := dropping{d}.retention()
	if r == nil || schema.IsSystem(t.Keyspace) {
		return nil
	}
	return &schema.TruncateTable{Keyspace: t.Keyspace, Table: t.Name, Rows: t.StorageID, Kept: d.NewID(), Retention: *r}
}

// undrop defines UNDROP TABLE. Of several dropped tables with the name, the last one is restored, or the one with
// the id.
func (d dropping) undrop(stmt *cql.UndropTable) Definition {
	// To clients the restored table is a new one, so the permissions and checks of CREATE TABLE apply.
	keyspace, found, err := d.named(stmt.Table, stmt.Properties, "CREATE")
	if err != nil {
		return refuse(err)
	}
	if len(found) == 0 {
		return refuse(d.notFound(keyspace, stmt.Table.Name))
	}
	// Apply checks the new name, because a table with that name may be created in the meantime.
	return Definition{
		Change: &schema.UndropTable{Keyspace: keyspace, Table: found[len(found)-1].StorageID, As: stmt.As},
		Event: schema.Event{Change: schema.Created, Target: schema.TargetTable, Keyspace: keyspace,
			Name: stmt.As}}
}

// purge defines PURGE TABLE. It removes the dropped table with the given id, or all that had the name. Clients do not
// see dropped tables, so it has no event.
func (d dropping) purge(stmt *cql.PurgeTable) Definition {
	keyspace, found, err := d.named(stmt.Table, stmt.Properties, "DROP")
	if err != nil {
		return refuse(err)
	}
	if len(found) == 0 {
		// IF EXISTS changes nothing, and the client receives an empty result.
		if stmt.IfExists {
			return Definition{}
		}
		return refuse(d.notFound(keyspace, stmt.Table.Name))
	}
	// The change names the expiry of each grace period: a table that is restored and dropped again in the meantime has
	// another one, and stays.
	purge := &schema.PurgeTables{Tables: map[schema.StorageID]int64{}}
	for _, t := range found {
		purge.Tables[t.StorageID] = t.Retention.Until
	}
	return Definition{Change: purge}
}

// named resolves the keyspace of a name, and returns the dropped tables that had the name and, if given, have the id,
// in the order of their drops. permission appears in the message about system keyspaces.
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
	// A dropped keyspace takes its tables with it: they are only found after UNDROP KEYSPACE.
	k := d.Schema.Keyspace(keyspace)
	if dropped, _ := d.keyspacesNamed(keyspace, nil, permission); k == nil && len(dropped) > 0 {
		return "", nil, invalid.Errorf("Keyspace '%s' was dropped: restore it first, with UNDROP KEYSPACE", keyspace)
	}
	if k == nil {
		return "", nil, &refused.NotFound{Keyspace: keyspace}
	}
	// Several tables with one name may have been dropped. The comparison is case-sensitive.
	for _, t := range k.Retained() {
		if t.Name == n.Name && (!hasID || t.ID == id) {
			found = append(found, t)
		}
	}
	// Retained follows the order of schema changes, which does not depend on the clocks of nodes.
	return keyspace, found, nil
}

// notFound returns the error if no dropped table has the name, or the name and the id.
func (d dropping) notFound(keyspace, name string) error {
	// The usual reason is that another client has restored it.
	if d.Schema.Table(keyspace, name) != nil {
		return invalid.Errorf("Table '%s.%s' exists, and no dropped table with this name can be restored", keyspace,
			name)
	}
	return invalid.Errorf("No dropped table '%s.%s' can be restored: it never existed, drop_grace was 0, or its grace "+
		"has ended (SELECT * FROM system_views.dropped_tables)", keyspace, name)
}

// undrop checks UNDROP TABLE. The restored table counts as a new one.
func (g guarding) undrop(c *schema.UndropTable) error {
	return g.Within(guardrail.Tables, g.tables()+1, c.As)
}

// tables returns the number of tables in user keyspaces.
func (g guarding) tables() (n int64) {
	for _, name := range g.schema.KeyspaceNames() {
		if !schema.IsSystem(name) {
			n += int64(g.schema.Keyspace(name).TableCount())
		}
	}
	return n
}

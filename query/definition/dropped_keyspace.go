package definition

import (
	"strconv"

	"cqld/cql"
	"cqld/query/guardrail"
	"cqld/query/invalid"
	"cqld/schema"
)

// undropKeyspace defines UNDROP KEYSPACE. If several dropped keyspaces had the name, it restores the one with the given
// id, or the one that was dropped last.
//
//	DROP KEYSPACE ks; CREATE KEYSPACE ks …; DROP KEYSPACE ks; UNDROP KEYSPACE ks     the second one
//	UNDROP KEYSPACE ks AS first                                                      the first one
func (d dropping) undropKeyspace(stmt *cql.UndropKeyspace) Definition {
	// To clients the restored keyspace is a new one: the permission to create keyspaces is required, and the guardrails
	// for new keyspaces apply (guarding.undropKeyspace).
	found, err := d.keyspacesNamed(stmt.Keyspace, stmt.Properties, "CREATE")
	if err == nil {
		err = mayChange(stmt.As, "CREATE", "keyspace "+stmt.As)
	}
	if err != nil {
		return refuse(err)
	}
	if len(found) == 0 {
		return refuse(d.keyspaceNotFound(stmt.Keyspace))
	}
	// Apply checks the new name, because a keyspace with that name may be created in the meantime.
	return Definition{
		Change: &schema.UndropKeyspace{Keyspace: found[len(found)-1].Name, As: stmt.As},
		Event:  schema.Event{Change: schema.Created, Target: schema.TargetKeyspace, Keyspace: stmt.As}}
}

// purgeKeyspace defines PURGE KEYSPACE. It removes the dropped keyspace with the given id, or all that had the name.
// Clients do not see dropped keyspaces, so it has no event.
func (d dropping) purgeKeyspace(stmt *cql.PurgeKeyspace) Definition {
	found, err := d.keyspacesNamed(stmt.Keyspace, stmt.Properties, "DROP")
	if err != nil {
		return refuse(err)
	}
	if len(found) == 0 {
		// IF EXISTS changes nothing, and the client receives an empty result, as from DROP KEYSPACE IF EXISTS.
		if stmt.IfExists {
			return Definition{}
		}
		return refuse(d.keyspaceNotFound(stmt.Keyspace))
	}
	// The change names the expiry of each grace period, as in purge.
	purge := &schema.PurgeKeyspaces{Keyspaces: map[string]int64{}}
	for _, k := range found {
		purge.Keyspaces[k.Name] = k.Dropped.Until
	}
	return Definition{Change: purge}
}

// keyspacesNamed returns the dropped keyspaces that had a name and, if given, have the id, in the order of their drops.
// permission appears in the message about system keyspaces.
func (d dropping) keyspacesNamed(name string, given cql.Properties, permission string) (found []*schema.Keyspace,
	err error) {
	if err = mayChange(name, permission, "keyspace "+name); err != nil {
		return nil, err
	}
	// The property id has the same name as in UNDROP TABLE, but is a number: keyspaces have no UUIDs.
	p, err := newProperties(given, "id")
	if err != nil {
		return nil, err
	}
	text, hasID, err := p.text("id")
	if err != nil {
		return nil, err
	}
	// The id is the number that system_views.dropped_keyspaces shows.
	var id uint64
	if hasID {
		if id, err = strconv.ParseUint(text, 10, 32); err != nil {
			return nil, invalid.Configf("Invalid keyspace id")
		}
	}
	// The comparison is case-sensitive. The keyspaces are in the order of their drops.
	for _, k := range d.Schema.DroppedKeyspaces() {
		if k.Dropped.Name == name && (!hasID || k.Dropped.Number == schema.StorageID(id)) {
			found = append(found, k)
		}
	}
	return found, nil
}

// keyspaceNotFound returns the error if no dropped keyspace has the name, or the name and the id.
func (d dropping) keyspaceNotFound(name string) error {
	// The usual reason is that another client has restored it.
	if d.Schema.Keyspace(name) != nil {
		return invalid.Errorf("Keyspace '%s' exists, and no dropped keyspace with this name can be restored", name)
	}
	return invalid.Errorf("No dropped keyspace '%s' can be restored: it never existed, drop_grace was 0, or its grace "+
		"has ended (SELECT * FROM system_views.dropped_keyspaces)", name)
}

// undropKeyspace checks UNDROP KEYSPACE. The restored keyspace and its tables count as new ones.
func (g guarding) undropKeyspace(c *schema.UndropKeyspace) error {
	// Apply refuses a keyspace that was purged, and a name in use.
	k := g.schema.StoredKeyspace(c.Keyspace)
	if k == nil || g.schema.Keyspace(c.As) != nil {
		return nil
	}
	if err := g.oneMore(c.As, k.Replication); err != nil {
		return err
	}
	return g.Within(guardrail.Tables, g.tables()+int64(k.TableCount()), c.As)
}

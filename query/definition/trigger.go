package definition

import (
	"cqld/cql"
	"cqld/query/invalid"
	"cqld/schema"
)

// createTrigger refuses triggers, after the checks that Cassandra makes first. Triggers are Java classes that run in
// Cassandra's process. The message names the alternatives.
func (d *Definer) createTrigger(stmt *cql.CreateTrigger) Definition {
	// Without authentication, every client may create triggers in Cassandra.
	if d.Ordinary {
		return refuse(&invalid.Unauthorized{Msg: "Only superusers are allowed to perform CREATE TRIGGER queries"})
	}
	keyspace, err := d.KeyspaceOf(stmt.Table)
	if err != nil {
		return refuse(err)
	}
	k := d.Schema.Keyspace(keyspace)
	switch {
	case schema.IsLocalSystem(keyspace), schema.IsVirtualSystem(keyspace):
		return refuse(invalid.Errorf("System keyspace '%s' is not user-modifiable", keyspace))
	case k == nil:
		return refuse(invalid.Errorf("Keyspace '%s' doesn't exist", keyspace))
	case k.Table(stmt.Table.Name) == nil:
		return refuse(invalid.Errorf("Table '%s' doesn't exist", stmt.Table.Name))
	}
	return refuse(invalid.Errorf("Trigger class '%s' couldn't be loaded: triggers are Java classes, which cqld does "+
		"not run. Write what the trigger would write in the same logged BATCH, or use a materialized view", stmt.Using))
}

// dropTrigger reports that the trigger does not exist, because none can.
func (d *Definer) dropTrigger(stmt *cql.DropTrigger) Definition {
	keyspace, err := d.KeyspaceOf(stmt.Table)
	switch {
	case d.Ordinary:
		// Cassandra's spelling
		return refuse(&invalid.Unauthorized{Msg: "Only superusers are allowed to perfrom DROP TRIGGER queries"})
	case err != nil:
		return refuse(err)
	// Neither the keyspace nor the table is looked up.
	case stmt.IfExists:
		return Definition{} // nothing changes
	}
	return refuse(invalid.Errorf("Trigger '%s' on '%s.%s' doesn't exist", stmt.Name, keyspace, stmt.Table.Name))
}

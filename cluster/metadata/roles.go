package metadata

import (
	"cqld/auth"
	"cqld/schema"
)

// applyRoles changes the directory of roles. auth.Apply checks the rules that every directory satisfies; whether the
// client may execute the statement was decided by its coordinator before the proposal.
func applyRoles(m *Metadata, c *RolesChange) error {
	change, err := auth.DecodeChange(c.Change)
	if err != nil {
		return &Refused{Reason: err.Error()}
	}
	roles, err := auth.Apply(m.Roles, change)
	if err != nil {
		return err
	}
	m.Roles = roles
	// In the same command, before a role with the name of a dropped one can be created.
	m.forgetGrants()
	return nil
}

// rolesAfter returns the directory after a change of the schema: grants on dropped keyspaces and tables are removed,
// and the creator gets all permissions on created ones. Otherwise a later keyspace or table of the same name would have
// the grants of the dropped one.
func rolesAfter(roles *auth.Directory, old, now *schema.Schema, creator string) (*auth.Directory, error) {
	// The grants change in the same command as the schema, so no node sees a table without the permissions of its
	// creator, or a new table with the grants of a dropped one.
	created, dropped := resourcesChanged(old, now)
	var err error
	if len(dropped) > 0 {
		if roles, err = auth.Apply(roles, &auth.ResourcesDropped{Resources: dropped}); err != nil {
			return nil, err
		}
	}
	if len(created) > 0 && creator != "" {
		roles, err = auth.Apply(roles, &auth.ResourcesCreated{Creator: creator, Resources: created})
	}
	return roles, err
}

// resourcesChanged returns the resources that a change of the schema created and dropped. A keyspace includes its
// functions. Dropping a keyspace includes its tables. A view that was created is none: permissions to use it are those
// on its base table, and UNMASK on it would show its creator what the masks of the base table hide. A table that was
// replaced is not dropped: the table that has its name now keeps the grants.
func resourcesChanged(old, now *schema.Schema) (created, dropped []auth.Resource) {
	for _, e := range schema.Diff(old, now) {
		var list []auth.Resource
		switch e.Target {
		case schema.TargetKeyspace:
			list = []auth.Resource{auth.Keyspace(e.Keyspace), auth.KeyspaceFunctions(e.Keyspace)}
		case schema.TargetTable:
			list = []auth.Resource{auth.Table(e.Keyspace, e.Name)}
		// Signature contains the types of the arguments: each overload has its own permissions. Types and indexes have
		// no resource, and list stays empty for them.
		case schema.TargetFunction, schema.TargetAggregate:
			list = []auth.Resource{auth.Function(e.Keyspace, e.Signature)}
		}
		switch e.Change {
		case schema.Created:
			if t := now.Table(e.Keyspace, e.Name); e.Target != schema.TargetTable || t == nil || t.View == nil {
				created = append(created, list...)
			}
		case schema.Dropped:
			if e.Target != schema.TargetTable || now.Table(e.Keyspace, e.Name) == nil {
				dropped = append(dropped, list...)
			}
		}
	}
	return created, dropped
}

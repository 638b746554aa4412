package metadata

import (
	"cqld/auth"
	"cqld/schema"
)

// applyRoles changes the role directory. auth.Apply checks the invariants of the directory. The coordinator decided
// before the proposal whether the client may execute the statement.
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

// rolesAfter returns the role directory after a schema change: grants on dropped keyspaces and tables are removed, so
// that later ones with the same name do not inherit them, and the creator gets all permissions on created ones.
func rolesAfter(roles *auth.Directory, old, now *schema.Schema, creator string) (*auth.Directory, error) {
	// Schema and grants change in the same command, so no node sees a table without its creator's permissions, or a new
	// table with the grants of a dropped one.
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

// resourcesChanged returns the resources that a schema change created and dropped. A keyspace includes its functions
// and, when it is dropped, its tables. A created view is not a resource: permissions on its base table apply, and
// UNMASK on the view would show its creator what the masks of the base table hide. A replaced table does not count as
// dropped: the table that now has its name keeps the grants.
func resourcesChanged(old, now *schema.Schema) (created, dropped []auth.Resource) {
	for _, e := range schema.Diff(old, now) {
		var list []auth.Resource
		switch e.Target {
		case schema.TargetKeyspace:
			list = []auth.Resource{auth.Keyspace(e.Keyspace), auth.KeyspaceFunctions(e.Keyspace)}
		case schema.TargetTable:
			list = []auth.Resource{auth.Table(e.Keyspace, e.Name)}
		// Signature includes the argument types, because each overload has its own permissions. Types and indexes are
		// not resources, so list stays empty for them.
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

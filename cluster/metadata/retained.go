package metadata

import (
	"slices"

	"cqld/auth"
	"cqld/schema"
)

// RetainedGrant contains the permissions of a role on a table when it was dropped, while UNDROP TABLE can restore it.
// The directory of roles does not have them: a new table with the name must not get them.
type RetainedGrant struct {
	Table       schema.StorageID
	Role        string
	Permissions auth.PermissionSet
}

// retainGrants keeps the grants on the tables that a change of the schema retains, and forgets the grants on tables
// that are no longer retained. now is the schema after the change, and m the metadata before it.
func (m *Metadata) retainGrants(now *schema.Schema) {
	// A table is no longer retained when it was restored, purged, or dropped with its keyspace.
	kept := slices.DeleteFunc(slices.Clone(m.RetainedGrants), func(g RetainedGrant) bool {
		t := now.TableByStorage(g.Table)
		return t == nil || t.Retention == nil
	})
	for _, t := range now.Retained() {
		// Only tables that this change drops: the grants on the others were kept before.
		if old := m.Schema.TableByStorage(t.StorageID); old == nil || old.Retention != nil {
			continue
		}
		// Grants on the keyspace are not concerned: they are there when the table returns.
		for _, role := range m.Roles.RoleNames() {
			if set := m.Roles.Granted(role, auth.Table(t.Keyspace, t.Name)); set != 0 {
				kept = append(kept, RetainedGrant{t.StorageID, role, set})
			}
		}
	}
	m.RetainedGrants = kept
}

// restoreGrants grants the permissions that roles had on a table when it was dropped. A role that has grants on too
// many other resources meanwhile does not get them.
func restoreGrants(roles *auth.Directory, retained []RetainedGrant, c *schema.UndropTable) *auth.Directory {
	for _, g := range retained {
		if g.Table != c.Table {
			continue
		}
		// A refusal of one role must not refuse the table.
		granted, err := auth.Apply(roles, &auth.GrantPermissions{Role: g.Role, Resource: auth.Table(c.Keyspace, c.As),
			Permissions: g.Permissions})
		if err == nil {
			roles = granted
		}
	}
	return roles
}

// forgetGrants forgets the retained grants of roles that do not exist: a later role of the name must not get them.
func (m *Metadata) forgetGrants() {
	// Readers share the list of the metadata before the command.
	m.RetainedGrants = slices.DeleteFunc(slices.Clone(m.RetainedGrants), func(g RetainedGrant) bool {
		_, exists := m.Roles.Role(g.Role)
		return !exists
	})
	m.RetainedKeyspaceGrants = slices.DeleteFunc(slices.Clone(m.RetainedKeyspaceGrants),
		func(g RetainedKeyspaceGrant) bool {
			_, exists := m.Roles.Role(g.Role)
			return !exists
		})
}

// RetainedKeyspaceGrant contains the permissions of a role on a keyspace when it was dropped, or on one of its tables,
// functions or aggregates, while UNDROP KEYSPACE can restore it.
type RetainedKeyspaceGrant struct {
	Keyspace    string // the hidden name
	Role        string
	Resource    auth.Resource // with the name of the keyspace before the drop
	Permissions auth.PermissionSet
}

// retainedKeyspaceGrantsMax bounds Metadata.RetainedKeyspaceGrants: programs may create, use and drop keyspaces all the
// time. Grants on the keyspaces that were dropped first are forgotten.
const retainedKeyspaceGrantsMax = 1 << 14

// retainKeyspaceGrants keeps the grants on a keyspace that a change of the schema retains, and forgets the grants on
// keyspaces that are no longer retained. now is the schema after the change, and m the metadata before it.
func (m *Metadata) retainKeyspaceGrants(now *schema.Schema) {
	retained := map[string]bool{}
	var dropped []*schema.Keyspace // by this change
	for _, k := range now.DroppedKeyspaces() {
		retained[k.Name] = true
		if m.Schema.StoredKeyspace(k.Name) == nil {
			dropped = append(dropped, k)
		}
	}
	kept := slices.DeleteFunc(slices.Clone(m.RetainedKeyspaceGrants),
		func(g RetainedKeyspaceGrant) bool { return !retained[g.Keyspace] })
	// The directory still has the grants: rolesAfter has made another one. Grants on tables that had been dropped
	// before are in RetainedGrants, and stay there.
	for _, k := range dropped {
		for _, role := range m.Roles.RoleNames() {
			for _, g := range m.Roles.Grants(role) {
				if g.Resource.Keyspace == k.Dropped.Name {
					kept = append(kept, RetainedKeyspaceGrant{k.Name, role, g.Resource, g.Permissions})
				}
			}
		}
	}
	m.RetainedKeyspaceGrants = kept[max(0, len(kept)-retainedKeyspaceGrantsMax):]
}

// restoreKeyspaceGrants grants the permissions that roles had on a keyspace and on what is in it when it was dropped. A
// role that has grants on too many other resources meanwhile does not get them.
func restoreKeyspaceGrants(roles *auth.Directory, retained []RetainedKeyspaceGrant,
	c *schema.UndropKeyspace) *auth.Directory {
	for _, g := range retained {
		if g.Keyspace != c.Keyspace {
			continue
		}
		resource := g.Resource
		resource.Keyspace = c.As
		// A refusal of one role must not refuse the keyspace.
		granted, err := auth.Apply(roles, &auth.GrantPermissions{Role: g.Role, Resource: resource,
			Permissions: g.Permissions})
		if err == nil {
			roles = granted
		}
	}
	return roles
}

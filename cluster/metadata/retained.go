package metadata

import (
	"slices"

	"cqld/auth"
	"cqld/schema"
)

// RetainedGrant contains the permissions that a role had on a dropped table, while UNDROP TABLE can restore it. The
// role directory does not contain them, because a new table with the same name must not inherit them.
type RetainedGrant struct {
	Table       schema.StorageID
	Role        string
	Permissions auth.PermissionSet
}

// retainGrants keeps the grants on tables that a schema change drops and retains, and removes the grants on tables that
// are no longer retained. now is the schema after the change, and m the metadata before it.
func (m *Metadata) retainGrants(now *schema.Schema) {
	// A table is no longer retained once it was restored, purged, or dropped with its keyspace.
	kept := slices.DeleteFunc(slices.Clone(m.RetainedGrants), func(g RetainedGrant) bool {
		t := now.TableByStorage(g.Table)
		return t == nil || t.Retention == nil
	})
	for _, t := range now.Retained() {
		// Only tables that this change drops: grants on earlier ones are already retained.
		if old := m.Schema.TableByStorage(t.StorageID); old == nil || old.Retention != nil {
			continue
		}
		// Grants on the keyspace need not be retained: they still exist when the table is restored.
		for _, role := range m.Roles.RoleNames() {
			if set := m.Roles.Granted(role, auth.Table(t.Keyspace, t.Name)); set != 0 {
				kept = append(kept, RetainedGrant{t.StorageID, role, set})
			}
		}
	}
	m.RetainedGrants = kept
}

// restoreGrants grants the permissions that roles had on a table when it was dropped. A role that has reached its limit
// of grants in the meantime does not get them.
func restoreGrants(roles *auth.Directory, retained []RetainedGrant, c *schema.UndropTable) *auth.Directory {
	for _, g := range retained {
		if g.Table != c.Table {
			continue
		}
		// If a role's grant is refused, the table is still restored.
		granted, err := auth.Apply(roles, &auth.GrantPermissions{Role: g.Role, Resource: auth.Table(c.Keyspace, c.As),
			Permissions: g.Permissions})
		if err == nil {
			roles = granted
		}
	}
	return roles
}

// forgetGrants removes the retained grants of dropped roles, because a later role with the same name must not get them.
func (m *Metadata) forgetGrants() {
	// Clone, because readers share the list of the previous metadata.
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

// RetainedKeyspaceGrant contains the permissions that a role had on a dropped keyspace, or on one of its tables,
// functions or aggregates, while UNDROP KEYSPACE can restore it.
type RetainedKeyspaceGrant struct {
	Keyspace    string // the hidden name
	Role        string
	Resource    auth.Resource // with the name of the keyspace before the drop
	Permissions auth.PermissionSet
}

// retainedKeyspaceGrantsMax bounds Metadata.RetainedKeyspaceGrants, because programs may create and drop keyspaces
// continuously. Grants on the keyspaces that were dropped first are removed.
const retainedKeyspaceGrantsMax = 1 << 14

// retainKeyspaceGrants keeps the grants on keyspaces that a schema change drops and retains, and removes the grants on
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
	// m.Roles still has the grants: rolesAfter has built another directory. Grants on tables that were dropped before
	// the keyspace are in RetainedGrants, and stay there.
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

// restoreKeyspaceGrants grants the permissions that roles had on a keyspace and its contents when it was dropped. A
// role that has reached its limit of grants in the meantime does not get them.
func restoreKeyspaceGrants(roles *auth.Directory, retained []RetainedKeyspaceGrant,
	c *schema.UndropKeyspace) *auth.Directory {
	for _, g := range retained {
		if g.Keyspace != c.Keyspace {
			continue
		}
		resource := g.Resource
		resource.Keyspace = c.As
		// If a role's grant is refused, the keyspace is still restored.
		granted, err := auth.Apply(roles, &auth.GrantPermissions{Role: g.Role, Resource: resource,
			Permissions: g.Permissions})
		if err == nil {
			roles = granted
		}
	}
	return roles
}

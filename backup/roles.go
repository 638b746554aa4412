package backup

import (
	"maps"
	"slices"

	"cqld/auth"
)

// restoring is an option of roles that are being restored; its value is the seed. Another attempt recognizes by it the
// roles that an earlier one has created, but perhaps not completed.
const restoring = "cqld_restoring"

// RoleChanges returns the changes that add the roles of a backup that do not exist now, with everything that belongs to
// them. Roles, groups and identities that exist stay as they are. Another attempt with the same seed continues.
func RoleChanges(then, now *auth.Directory, seed string) (out []auth.Change) {
	// Roles name groups, so groups are first.
	for _, name := range then.GroupNames() {
		if _, ok := now.Group(name); !ok {
			ranges, _ := then.Group(name)
			out = append(out, &auth.SetCIDRGroup{Name: name, CIDRs: ranges})
		}
	}
	var added []string
	for _, name := range then.RoleNames() {
		// The mark distinguishes a role that this restoration has created from one that existed before.
		earlier, ok := now.Role(name)
		if ok && earlier.Options[restoring] != seed {
			continue
		}
		added = append(added, name)
		if ok {
			continue
		}
		// The hash of the password is restored, never the password, which no node knows.
		r, _ := then.Role(name)
		s := auth.RoleSettings{Login: &r.Login, Superuser: &r.Superuser, Options: map[string]string{restoring: seed}}
		if r.Hash != "" {
			s.Hash = &r.Hash
		}
		if r.Datacenters.Restricted {
			s.Datacenters = &r.Datacenters
		}
		if r.CIDRs.Restricted {
			s.CIDRs = &r.CIDRs
		}
		out = append(out, &auth.CreateRole{Name: name, Settings: s})
	}
	// Memberships and grants name other roles, which exist now.
	for _, name := range added {
		r, _ := then.Role(name)
		earlier, _ := now.Role(name)
		for _, parent := range r.MemberOf {
			if earlier != nil && slices.Contains(earlier.MemberOf, parent) {
				continue
			}
			out = append(out, &auth.GrantRole{Role: parent, Grantee: name})
		}
		for _, g := range then.Grants(name) {
			out = append(out, &auth.GrantPermissions{Role: name, Resource: g.Resource, Permissions: g.Permissions})
		}
	}
	// An identity belongs to one role. One that exists now may belong to a role of the present cluster.
	for _, id := range then.Identities() {
		role, _ := then.Identity(id)
		if _, ok := now.Identity(id); !ok {
			out = append(out, &auth.AddIdentity{Identity: id, Role: role})
		}
	}
	// Accounts are properties of roles: an account of an existing role stays as it is.
	for _, name := range then.TablesAccounts() {
		a, _ := then.TablesAccount(name)
		if _, ok := now.TablesAccount(name); ok || !slices.Contains(added, a.Role) {
			continue
		}
		s := &auth.TablesSettings{Account: name, New: true, Keys: [2]*string{&a.Keys[0], &a.Keys[1]}}
		if a.Consistency != "" {
			s.Consistency = &a.Consistency
		}
		out = append(out, &auth.AlterRole{Name: a.Role, Settings: auth.RoleSettings{Tables: s}})
	}
	// The mark is last.
	for _, name := range added {
		r, _ := then.Role(name)
		options := map[string]string{}
		maps.Copy(options, r.Options)
		out = append(out, &auth.AlterRole{Name: name, Settings: auth.RoleSettings{Options: options}})
	}
	return out
}

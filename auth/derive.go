package auth

import (
	"maps"
	"slices"
	"strings"
)

// put adds or replaces a role. It computes the effective state of the role and of all of its members.
func (d *Directory) put(r *Role) {
	d.roles = cloned(d.roles)
	d.roles[r.Name] = r
	d.derive(d.membersOf(r.Name))
}

// membersOf returns a role and the roles that are members of it, directly and indirectly.
func (d *Directory) membersOf(name string) []string {
	out := []string{name}
	// The effective state of each role lists its memberships, so one pass over all roles finds the members. The order
	// is arbitrary; callers use the result as a set.
	for of, e := range d.effective {
		if _, ok := slices.BinarySearch(e.roles, name); ok && of != name {
			out = append(out, of)
		}
	}
	return out
}

// setGrant replaces the permissions of a role on a resource. The caller calls derive. An empty set removes the entry,
// and the role's map with its last entry, so that neither is ever empty.
func (d *Directory) setGrant(role string, r Resource, set PermissionSet) {
	d.grants = cloned(d.grants)
	of := cloned(d.grants[role])
	if of[r] = set; set == 0 {
		delete(of, r)
	}
	// The outer map was cloned above, so both assignments change the copy.
	if d.grants[role] = of; len(of) == 0 {
		delete(d.grants, role)
	}
}

// grantAll grants a role all permissions that apply to resources; empty means no role. A role that does not exist gets
// none.
func (d *Directory) grantAll(role string, resources []Resource) {
	if d.roles[role] == nil {
		return
	}
	// The effective state is derived once, after all grants.
	for _, r := range resources {
		d.setGrant(role, r, NewPermissionSet(r.Permissions()...))
	}
	d.derive(d.membersOf(role))
}

// revokeAll removes the grants on resources and on everything below them. It reports whether there were any.
func (d *Directory) revokeAll(resources []Resource) bool {
	changed := false
	for role, grants := range d.grants { // the map is replaced, not changed, while it is read
		for r := range grants {
			// setGrant replaces the map of the role, so that this loop continues over the old one.
			if slices.ContainsFunc(resources, r.within) {
				d.setGrant(role, r, 0)
				changed = true
			}
		}
		if changed {
			d.derive(d.membersOf(role))
		}
	}
	return changed
}

// within reports whether r is root or below it. It walks from r towards the root of its hierarchy, at most three steps.
func (r Resource) within(root Resource) bool {
	for ok := true; ok; r, ok = r.Parent() {
		if r == root {
			return true
		}
	}
	return false
}

// derive computes the effective state of roles after their settings, memberships or grants have changed. names contains
// all roles that the change concerns; the entries of others stay shared with the old directory. A role that does not
// exist loses its entry.
func (d *Directory) derive(names []string) {
	d.effective = cloned(d.effective)
	for _, name := range names {
		// The role was dropped.
		if d.roles[name] == nil {
			delete(d.effective, name)
			continue
		}
		d.effective[name] = d.deriveRole(name)
	}
}

// deriveRole computes the effective state of a role. Superuser status and grants are inherited; LOGIN, data centers and
// CIDR groups are not.
func (d *Directory) deriveRole(name string) *effective {
	e := &effective{roles: d.closure(name)}
	for _, granted := range e.roles {
		e.superuser = e.superuser || d.roles[granted].Superuser
		from := d.grants[granted]
		switch {
		case len(from) == 0:
		// Most roles are members of none, and share the map of their grants.
		case len(e.roles) == 1:
			e.grants = from // not copied: the maps of a Directory never change
		default:
			if e.grants == nil {
				e.grants = make(map[Resource]PermissionSet, len(from))
			}
			// Merge the permissions of all roles.
			for r, set := range from {
				e.grants[r] |= set
			}
		}
	}
	return e
}

// closure returns a role and all roles that it is a member of, ascending.
func (d *Directory) closure(name string) []string {
	// GrantRole rejects cycles. seen keeps the loop finite even if a decoded directory contains one, and avoids
	// duplicates of roles that are granted in two ways.
	seen := map[string]bool{name: true}
	all := []string{name}
	// all grows while it is visited: it is the queue of a breadth-first search.
	for i := 0; i < len(all); i++ {
		for _, parent := range d.roles[all[i]].MemberOf {
			if !seen[parent] {
				seen[parent] = true
				all = append(all, parent)
			}
		}
	}
	slices.Sort(all)
	return all
}

// cloned returns a copy of m that can be written, also if m is nil.
func cloned[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

// with returns a copy of a sorted list with one more name. The name must not be in the list.
func with(names []string, name string) []string {
	at, _ := slices.BinarySearch(names, name)
	return slices.Insert(slices.Clone(names), at, name)
}

// without returns a copy of a list without a name.
func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// list returns names in the form of Cassandra's messages: [a, b].
func list(names []string) string { return "[" + strings.Join(names, ", ") + "]" }

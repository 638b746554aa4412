package auth

import (
	"maps"
	"net/netip"
	"slices"
)

// Role is a role as the Directory shows it. It is immutable.
type Role struct {
	Name string
	// Hash is the bcrypt hash of the password. Empty means that the role has no password and cannot log in with one.
	Hash string
	// Login allows the role to log in. Roles without it are groups of permissions.
	Login bool
	// Superuser is the status of the role itself; Directory.IsSuperuser includes inherited status.
	Superuser bool
	Options   map[string]string // nil means none
	// MemberOf contains the roles granted to this one directly, ascending.
	MemberOf []string
	// Members contains the roles that this one is granted to directly, ascending.
	Members []string
	// Datacenters is from ACCESS TO.
	Datacenters Access
	// CIDRs is from ACCESS FROM, and contains names of groups.
	CIDRs Access
}

// Access restricts from or to where a role may connect. The zero value is ALL. Names is only meaningful if Restricted;
// an empty list then admits nothing.
type Access struct {
	Restricted bool
	Names      []string // names of data centers or CIDR groups, ascending, if Restricted
}

// Grant contains the permissions of a role on a resource.
type Grant struct {
	Role        string
	Resource    Resource
	Permissions PermissionSet
}

// CIDRGroup is a named list of address ranges.
type CIDRGroup struct {
	Name string
	// CIDRs are masked and ascending. IPv4 ranges are not mapped to IPv6.
	CIDRs []netip.Prefix
}

// Directory contains the roles of a cluster with everything that belongs to them. It is immutable and safe for
// concurrent use. Nodes replicate it as part of the cluster's metadata; Apply makes the next one. The zero value is
// empty. Everything that a change does not concern is shared by the old and the new directory.
type Directory struct {
	roles map[string]*Role
	// grants is by role. Neither its maps nor their sets are empty.
	grants map[string]map[Resource]PermissionSet
	// identities contains the role of each identity.
	identities map[string]string
	// groups contains the ranges of each CIDR group.
	groups map[string][]netip.Prefix
	// accounts contains the accounts of Azure Tables, by name.
	accounts map[string]*TablesAccount
	// effective is by role, with an entry for each role. It is derived and not encoded.
	effective map[string]*effective
}

// effective contains the roles and permissions of a role, including those inherited directly and indirectly. It is
// computed when a change is applied, so that Authorize needs a few map look-ups and no walk over memberships.
type effective struct {
	superuser bool
	// roles are the role itself and those granted to it, ascending.
	roles []string
	// grants are merged from all of them. It may be the map of one role, and must not be changed.
	grants map[Resource]PermissionSet
}

// NewDirectory returns an empty Directory.
func NewDirectory() *Directory { return new(Directory) }

// Empty reports whether there is nothing in the directory.
func (d *Directory) Empty() bool {
	return len(d.roles) == 0 && len(d.grants) == 0 && len(d.identities) == 0 && len(d.groups) == 0 &&
		len(d.accounts) == 0
}

// Role returns a role.
func (d *Directory) Role(name string) (*Role, bool) {
	r, ok := d.roles[name]
	return r, ok
}

// RoleNames returns the names of all roles, ascending.
func (d *Directory) RoleNames() []string { return slices.Sorted(maps.Keys(d.roles)) }

// RolesOf returns a role and all roles granted to it, directly and indirectly, ascending; nil if it does not exist. The
// caller must not change the slice.
func (d *Directory) RolesOf(name string) []string {
	if e := d.effective[name]; e != nil {
		return e.roles
	}
	return nil
}

// IsSuperuser reports whether a role is a superuser, itself or by a role granted to it.
func (d *Directory) IsSuperuser(name string) bool {
	e := d.effective[name]
	return e != nil && e.superuser
}

// CanLogin reports whether a role exists and may log in.
func (d *Directory) CanLogin(name string) bool {
	r := d.roles[name]
	return r != nil && r.Login
}

// Identity returns the role that an identity, such as the SPIFFE name of a certificate, logs in as.
func (d *Directory) Identity(id string) (role string, ok bool) {
	role, ok = d.identities[id]
	return role, ok
}

// Identities returns all identities, ascending.
func (d *Directory) Identities() []string { return slices.Sorted(maps.Keys(d.identities)) }

// Grants returns the permissions granted directly to a role, sorted by resource.
func (d *Directory) Grants(role string) []Grant {
	var out []Grant
	for r, set := range d.grants[role] {
		out = append(out, Grant{role, r, set})
	}
	slices.SortFunc(out, func(a, b Grant) int { return a.Resource.Compare(b.Resource) })
	return out
}

// Granted returns the permissions granted directly to a role on exactly this resource.
func (d *Directory) Granted(role string, r Resource) PermissionSet { return d.grants[role][r] }

// Has reports whether a role is a superuser or has a permission on the resource or one of its parents, itself or by a
// role granted to it. It does not allocate. It does not apply the rules for system keyspaces; CassandraAuthorizer
// does.
func (d *Directory) Has(role string, p Permission, r Resource) bool {
	e := d.effective[role]
	return e != nil && (e.superuser || e.has(p, r, false))
}

// has searches the grants from r to its root, which it excludes if belowRoot.
func (e *effective) has(p Permission, r Resource, belowRoot bool) bool {
	for {
		if e.grants[r].Has(p) {
			return true
		}
		// A hierarchy has at most four levels, so that at most four look-ups decide.
		parent, ok := r.Parent()
		if !ok {
			return false
		}
		// The parent is the root.
		if _, inner := parent.Parent(); belowRoot && !inner {
			return false
		}
		r = parent
	}
}

// MayAccess reports whether a role may use the nodes of a data center: superusers may, and other roles unless they
// are restricted to other data centers. As in Cassandra, restrictions are not inherited from granted roles.
func (d *Directory) MayAccess(role, datacenter string) bool {
	r := d.roles[role]
	if r == nil {
		return false
	}
	return d.IsSuperuser(role) || !r.Datacenters.Restricted || slices.Contains(r.Datacenters.Names, datacenter)
}

// GroupsOf returns the names of the CIDR groups that contain the longest prefix of an address, ascending. As in
// Cassandra, groups with only shorter ones do not count. It is nil if no group contains the address.
func (d *Directory) GroupsOf(client netip.Addr) []string {
	var out []string
	longest := -1
	// Ranges of IPv4 are stored unmapped, and a zone would keep an address from matching.
	client = client.Unmap().WithZone("")
	for _, name := range d.GroupNames() {
		of := -1
		for _, p := range d.groups[name] {
			if p.Contains(client) {
				of = max(of, p.Bits())
			}
		}
		// A longer prefix replaces all groups found before; an equal one is added.
		if of > longest {
			out, longest = nil, of
		}
		if of >= 0 && of == longest {
			out = append(out, name)
		}
	}
	return out
}

// Group returns the ranges of a CIDR group. The caller must not change the slice.
func (d *Directory) Group(name string) ([]netip.Prefix, bool) {
	p, ok := d.groups[name]
	return p, ok
}

// GroupNames returns the names of all CIDR groups, ascending.
func (d *Directory) GroupNames() []string { return slices.Sorted(maps.Keys(d.groups)) }

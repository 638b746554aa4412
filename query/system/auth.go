package system

import (
	"net/netip"
	"slices"

	"cqld/auth"
	"cqld/internal/wire"
)

// authRows adds the rows of system_auth. They have Cassandra's form, in which roles and resources are named by their
// paths in some tables. Package query hides the hashes of passwords from all clients but superusers. Cassandra stores
// these tables; here they show the metadata, which CREATE ROLE, GRANT and others change.
func (s *Source) authRows(b *builder) {
	// Without roles, the tables exist and are empty.
	if s.o.Roles == nil {
		return
	}
	// One snapshot for all rows of the page.
	d := s.o.Roles()
	switch b.table.Name {
	// Partitions are identities.
	case "identity_to_role":
		for _, id := range d.Identities() {
			role, _ := d.Identity(id)
			b.add(values{"identity": text(id), "role": text(role)})
		}
		return
	// Partitions are names of groups.
	case "cidr_groups":
		for _, name := range d.GroupNames() {
			ranges, _ := d.Group(name)
			b.add(values{"cidr_group": text(name), "cidrs": cidrSet(ranges)})
		}
		return
	}
	add := func(name string) {
		role, _ := d.Role(name)
		roleRows(b, d, role)
	}
	switch b.table.Name {
	// Pages of these tables use the order of a cache, since a cluster may have many roles.
	case "roles", "role_members", "role_permissions", "cidr_permissions": // partitions are roles, by their names
		// Rows in reverse order cannot be cut at a limit, because the builder adds them ascending.
		if !b.cmd.Reversed {
			b.limit = b.cmd.Limits.Rows
		}
		s.roleOrder.of(d, d.RoleNames).each(b, add)
	// Partitions are not roles here, so the rows are sorted after all of them are made.
	default:
		for _, name := range d.RoleNames() {
			add(name)
		}
	}
}

// roleRows adds the rows of one role. A row whose columns have no values is still a row: it has a liveness. For
// example, a grant of SELECT on the table shop.orders has the resource data/shop/orders.
func roleRows(b *builder, d *auth.Directory, r *auth.Role) {
	switch b.table.Name {
	// A role without memberships has null, as an empty set is not stored.
	case "roles":
		row := values{"role": text(r.Name), "can_login": boolean(r.Login), "is_superuser": boolean(r.Superuser),
			"salted_hash": textOrNull(r.Hash)}
		if len(r.MemberOf) > 0 {
			row["member_of"] = texts(r.MemberOf)
		}
		b.add(row)
	case "role_members":
		for _, member := range r.Members {
			b.add(values{"role": text(r.Name), "member": text(member)})
		}
	// One row for each resource on which the role has permissions.
	case "role_permissions":
		for _, g := range d.Grants(r.Name) {
			b.add(values{"role": text(r.Name), "resource": text(g.Resource.Path()),
				"permissions": texts(permissionNames(g.Permissions))})
		}
	// The name of the table has Cassandra's spelling.
	case "resource_role_permissons_index":
		for _, g := range d.Grants(r.Name) {
			b.add(values{"resource": text(g.Resource.Path()), "role": text(r.Name)})
		}
	case "network_permissions":
		b.add(values{"role": text(auth.RoleResource(r.Name).Path()), "dcs": texts(r.Datacenters.Names)})
	case "cidr_permissions":
		b.add(values{"role": text(r.Name), "cidr_groups": texts(r.CIDRs.Names)})
	}
}

// permissionNames returns the names of permissions in the order of a set. A set in wire form is sorted.
func permissionNames(set auth.PermissionSet) []string {
	var names []string
	for _, p := range set.List() {
		names = append(names, p.String())
	}
	slices.Sort(names)
	return names
}

// cidrSet returns ranges as a set of tuples of an address and a length of its prefix. The elements are in wire form,
// sorted by their bytes. The type is frozen<set<frozen<tuple<inet, smallint>>>>, so 10.0.0.0/8 has the bytes
//
//	00000004 0a000000   00000002 0008
//	length   address    length   bits
func cidrSet(ranges []netip.Prefix) []byte {
	// A tuple of two fields, each with its length.
	elements := make([][]byte, len(ranges))
	for i, p := range ranges {
		e := wire.AppendBytes(nil, inet(p.Addr()))
		elements[i] = wire.AppendBytes(e, wire.AppendUint16(nil, uint16(p.Bits())))
	}
	slices.SortFunc(elements, slices.Compare)
	b := wire.AppendInt32(nil, int32(len(elements)))
	// All addresses of one family have one length, and the length precedes them, so IPv4 comes before IPv6.
	for _, e := range elements {
		b = wire.AppendBytes(b, e)
	}
	return b
}

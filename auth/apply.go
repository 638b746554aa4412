package auth

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
)

// errUnchanged is returned by a change without effect.
var errUnchanged = errors.New("auth: no change")

// Apply returns the directory after a change, or *Invalid if the change is not possible. It depends on its arguments
// only and never changes d. For a change without effect it returns d itself. All nodes apply the same changes in the
// same order, so the result must not depend on anything else, such as the clock or the order of a map.
func Apply(d *Directory, c Change) (*Directory, error) {
	next := *d
	// A change that fails may have replaced some maps of next already. next is discarded then.
	switch err := c.apply(&next); {
	case errors.Is(err, errUnchanged):
		return d, nil
	case err != nil:
		return nil, err
	}
	return &next, nil
}

// The apply methods change a shallow copy of a directory, whose maps and roles still belong to the original. They
// therefore replace maps and roles and change only what they have copied.

// apply adds the role. It repeats the checks of package query/roles, because another change may have been applied in
// the meantime.
func (c *CreateRole) apply(d *Directory) error {
	switch _, exists := d.roles[c.Name]; {
	case exists && c.IfNotExists:
		return errUnchanged
	case exists:
		return invalidf("%s already exists", c.Name)
	case len(d.roles) >= rolesMax:
		return invalidf("there are already %d roles, which is the maximum", rolesMax)
	}
	if err := checkName(c.Name); err != nil {
		return err
	}
	// The creator gets a grant, whose resource is longer than the name and is also the key of a row in Cassandra.
	if err := checkName(RoleResource(c.Name).Path()); err != nil && c.Creator != "" {
		return err
	}
	// The account of Azure Tables is validated last, by applyTables.
	if err := d.checkSettings(&c.Settings); err != nil {
		return err
	}
	role := &Role{Name: c.Name}
	c.Settings.set(role)
	// The role must exist before it is the resource of a grant.
	d.put(role)
	d.grantAll(c.Creator, []Resource{RoleResource(c.Name)})
	return c.Settings.applyTables(d, c.Name)
}

// checkName bounds the length of a name, with Cassandra's message: in Cassandra, names are keys of rows.
func checkName(name string) error {
	if len(name) > nameBytesMax {
		return invalidf("Key length of %d is longer than maximum of %d", len(name), nameBytesMax)
	}
	return nil
}

// apply copies the old role, changes the copy, and replaces the role: readers may have the old one.
func (c *AlterRole) apply(d *Directory) error {
	old := d.roles[c.Name]
	switch {
	case old == nil && c.IfExists:
		return errUnchanged
	case old == nil:
		return invalidf("Role %s doesn't exist", c.Name)
	}
	if err := d.checkSettings(&c.Settings); err != nil {
		return err
	}
	// Members and MemberOf are shared with the old role; settings do not change them.
	role := *old
	c.Settings.set(&role)
	d.put(&role)
	return c.Settings.applyTables(d, c.Name)
}

// applyTables changes the account of Azure Tables that the settings name, if any. It comes after the change of the
// role, because the account belongs to it.
func (s *RoleSettings) applyTables(d *Directory, role string) error {
	if s.Tables == nil {
		return nil
	}
	return s.Tables.apply(d, role)
}

// checkSettings refuses unknown CIDR groups and too many options. Data centers are not checked here: the directory does
// not know the topology.
func (d *Directory) checkSettings(s *RoleSettings) error {
	if len(s.Options) > optionsMax {
		return invalidf("a role cannot have more than %d options", optionsMax)
	}
	// nil means that the statement does not set CIDR groups.
	if s.CIDRs == nil {
		return nil
	}
	var unknown []string
	for _, name := range s.CIDRs.Names {
		if _, ok := d.groups[name]; !ok {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return invalidf("Invalid CIDR group(s): %v. Available CIDR Groups are: %v", list(unknown), list(d.GroupNames()))
	}
	return nil
}

// set changes a role that the caller owns. It does not change settings that are nil, and copies maps and slices.
func (s *RoleSettings) set(r *Role) {
	if s.Hash != nil {
		r.Hash = *s.Hash
	}
	if s.Login != nil {
		r.Login = *s.Login
	}
	if s.Superuser != nil {
		r.Superuser = *s.Superuser
	}
	// Options are replaced as a whole, not merged. A role without options has a nil map.
	if len(s.Options) > 0 {
		r.Options = maps.Clone(s.Options)
	} else if s.Options != nil {
		r.Options = nil
	}
	// The form in the directory is sorted, so that equal directories have equal encodings.
	if s.Datacenters != nil {
		r.Datacenters = s.Datacenters.sorted()
	}
	if s.CIDRs != nil {
		r.CIDRs = s.CIDRs.sorted()
	}
}

// sorted returns a copy of a with each name once, in order.
func (a *Access) sorted() Access {
	return Access{Restricted: a.Restricted, Names: slices.Compact(slices.Sorted(slices.Values(a.Names)))}
}

// apply removes all traces of the role, so that a new role of the same name starts without them.
func (c *DropRole) apply(d *Directory) error {
	role := d.roles[c.Name]
	switch {
	case role == nil && c.IfExists:
		return errUnchanged
	case role == nil:
		return invalidf("%s doesn't exist", c.Name)
	}
	// Determine the members while the role still exists, because they lose what they inherit from it.
	affected := d.membersOf(c.Name)
	d.roles = maps.Clone(d.roles)
	delete(d.roles, c.Name)
	// d.roles is a copy from here on, but the roles in it are shared with the old directory.
	for _, name := range role.Members {
		member := *d.roles[name]
		member.MemberOf = without(member.MemberOf, c.Name)
		d.roles[name] = &member
	}
	for _, name := range role.MemberOf {
		parent := *d.roles[name]
		parent.Members = without(parent.Members, c.Name)
		d.roles[name] = &parent
	}
	if d.grants[c.Name] != nil {
		d.grants = maps.Clone(d.grants)
		delete(d.grants, c.Name)
	}
	d.identities = maps.Clone(d.identities)
	// An identity of the role would otherwise log in as a later role of the name.
	maps.DeleteFunc(d.identities, func(_, of string) bool { return of == c.Name })
	d.dropAccounts(c.Name)
	// Call revokeAll last, because it uses the effective state from derive.
	d.derive(affected)
	d.revokeAll([]Resource{RoleResource(c.Name)})
	return nil
}

// apply records the membership in both directions: Members of the role, MemberOf of the grantee.
func (c *GrantRole) apply(d *Directory) error {
	role, grantee, err := d.pair(c.Role, c.Grantee)
	if err != nil {
		return err
	}
	// RolesOf includes the role itself, so the first check also rejects a grant of a role to itself. The second check
	// rejects cycles.
	if slices.Contains(d.RolesOf(c.Grantee), c.Role) {
		return invalidf("%s is a member of %s", c.Grantee, c.Role)
	}
	if slices.Contains(d.RolesOf(c.Role), c.Grantee) {
		return invalidf("%s is a member of %s", c.Role, c.Grantee)
	}
	// pair has returned copies of both roles, and with returns copies of the lists.
	role.Members = with(role.Members, c.Grantee)
	grantee.MemberOf = with(grantee.MemberOf, c.Role)
	d.putPair(role, grantee)
	return nil
}

// apply removes the membership in both directions. Only a direct one can be revoked.
func (c *RevokeRole) apply(d *Directory) error {
	role, grantee, err := d.pair(c.Role, c.Grantee)
	if err != nil {
		return err
	}
	if c.Role == c.Grantee { // a role is a member of itself, and remains one
		return errUnchanged
	}
	// An indirect membership must be revoked from the role that has it directly.
	if !slices.Contains(grantee.MemberOf, c.Role) {
		return invalidf("%s is not a member of %s", c.Grantee, c.Role)
	}
	role.Members = without(role.Members, c.Grantee)
	grantee.MemberOf = without(grantee.MemberOf, c.Role)
	d.putPair(role, grantee)
	return nil
}

// pair returns copies of two roles, which the caller may change. The error names the first one that does not exist.
func (d *Directory) pair(role, grantee string) (*Role, *Role, error) {
	for _, name := range []string{role, grantee} {
		if d.roles[name] == nil {
			return nil, nil, invalidf("%s doesn't exist", name)
		}
	}
	r, g := *d.roles[role], *d.roles[grantee]
	return &r, &g, nil
}

// putPair replaces two roles after their membership has changed. The effective state changes for the grantee and its
// members only.
func (d *Directory) putPair(role, grantee *Role) {
	d.roles = maps.Clone(d.roles)
	d.roles[role.Name], d.roles[grantee.Name] = role, grantee
	d.derive(d.membersOf(grantee.Name))
}

// apply adds permissions, and keeps those that are granted already.
func (c *GrantPermissions) apply(d *Directory) error {
	old, err := d.toChange(c.Role, c.Resource, c.Permissions)
	if err != nil {
		return err
	}
	// Without a new permission nothing changes.
	if old|c.Permissions == old {
		return errUnchanged
	}
	// The bound limits the metadata, which every node keeps in memory.
	if len(d.grants[c.Role]) >= grantsMax {
		return invalidf("Role %s already has permissions on %d resources, which is the maximum", c.Role, grantsMax)
	}
	d.setGrant(c.Role, c.Resource, old|c.Permissions)
	d.derive(d.membersOf(c.Role))
	return nil
}

// apply removes permissions, and ignores those that the role does not have.
func (c *RevokePermissions) apply(d *Directory) error {
	old, err := d.toChange(c.Role, c.Resource, c.Permissions)
	if err != nil {
		return err
	}
	// None of the permissions is granted on exactly this resource.
	if old&^c.Permissions == old {
		return errUnchanged
	}
	d.setGrant(c.Role, c.Resource, old&^c.Permissions)
	d.derive(d.membersOf(c.Role))
	return nil
}

// toChange returns the permissions of an existing role on a resource on which the given permissions can be granted.
// Query checks that keyspaces and tables exist.
func (d *Directory) toChange(role string, r Resource, set PermissionSet) (PermissionSet, error) {
	if d.roles[role] == nil {
		return 0, invalidf("Role %s doesn't exist", role)
	}
	// permissions.Granted has reduced the set to those that apply.
	if set&^NewPermissionSet(r.Permissions()...) != 0 {
		return 0, invalidf("the permissions do not apply to %s", r)
	}
	if r.Kind == KindRole && d.roles[r.Name] == nil {
		return 0, invalidf("Resource %s doesn't exist", r)
	}
	// The caller adds to or removes from what is granted on exactly this resource.
	return d.grants[role][r], nil
}

// apply grants nothing to an anonymous creator, or to a creator that was dropped meanwhile.
func (c *ResourcesCreated) apply(d *Directory) error {
	// Anonymous creators have an empty name, which no role has.
	if d.roles[c.Creator] == nil {
		return errUnchanged
	}
	d.grantAll(c.Creator, c.Resources)
	return nil
}

// apply does not change the directory if there are no grants on the resources, as for most drops.
func (c *ResourcesDropped) apply(d *Directory) error {
	before := len(d.grants)
	if before == 0 || !d.revokeAll(c.Resources) {
		return errUnchanged
	}
	return nil
}

func (c *AddIdentity) apply(d *Directory) error {
	_, exists := d.identities[c.Identity]
	switch {
	// The role comes first: IF NOT EXISTS concerns the identity only.
	case d.roles[c.Role] == nil:
		return invalidf("Can not add identity for non-existent role '%s'", c.Role)
	case exists && c.IfNotExists:
		return errUnchanged
	case exists:
		return invalidf("%s already exists", c.Identity)
	case c.Identity == "":
		return invalidf("Key may not be empty")
	case len(d.identities) >= identitiesMax:
		return invalidf("there are already %d identities, which is the maximum", identitiesMax)
	}
	if err := checkName(c.Identity); err != nil {
		return err
	}
	d.identities = cloned(d.identities)
	d.identities[c.Identity] = c.Role
	return nil
}

func (c *DropIdentity) apply(d *Directory) error {
	_, exists := d.identities[c.Identity]
	switch {
	case !exists && c.IfExists:
		return errUnchanged
	case !exists:
		return invalidf("identity '%s' doesn't exist", c.Identity)
	}
	d.identities = maps.Clone(d.identities)
	delete(d.identities, c.Identity)
	return nil
}

// apply stores ranges masked, sorted and without duplicates, so that equal groups have equal encodings.
func (c *SetCIDRGroup) apply(d *Directory) error {
	_, exists := d.groups[c.Name]
	switch {
	case c.Name == "":
		return invalidf("the name of a CIDR group must not be empty")
	case !exists && len(d.groups) >= groupsMax:
		return invalidf("there are already %d CIDR groups, which is the maximum", groupsMax)
	case len(c.CIDRs) == 0 || len(c.CIDRs) > groupCIDRsMax:
		return invalidf("a CIDR group must have between 1 and %d ranges", groupCIDRsMax)
	}
	if err := checkName(c.Name); err != nil {
		return err
	}
	var ranges []netip.Prefix
	// A prefix from JSON may be invalid, and may have bits after its length.
	for _, p := range c.CIDRs {
		if !p.IsValid() {
			return invalidf("CIDR group %s contains an invalid range", c.Name)
		}
		// GroupsOf compares with addresses in the same form.
		ranges = append(ranges, unmapped(p.Masked()))
	}
	slices.SortFunc(ranges, netip.Prefix.Compare)
	d.groups = cloned(d.groups)
	d.groups[c.Name] = slices.Compact(ranges)
	return nil
}

// unmapped converts an IPv4-mapped IPv6 range (::ffff:10.0.0.0/104) to an IPv4 range, because client addresses are
// compared in that form.
func unmapped(p netip.Prefix) netip.Prefix {
	const mapped = 96 // bits before the IPv4 address
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p
}

// apply removes only the group. Roles keep its name, but it no longer admits them.
func (c *DropCIDRGroup) apply(d *Directory) error {
	if _, ok := d.groups[c.Name]; !ok {
		return invalidf("CIDR group '%s' doesn't exist", c.Name)
	}
	d.groups = maps.Clone(d.groups)
	delete(d.groups, c.Name)
	return nil
}

// apply has no effect if any role exists, even if no role is a superuser.
func (c *FirstSuperuser) apply(d *Directory) error {
	if len(d.roles) > 0 {
		return errUnchanged
	}
	d.put(&Role{Name: c.Name, Hash: c.Hash, Login: true, Superuser: true})
	return nil
}

// apply keeps the options, memberships and grants of an existing role.
func (c *ResetSuperuser) apply(d *Directory) error {
	// A role that does not exist is created.
	role := Role{Name: c.Name}
	if old := d.roles[c.Name]; old != nil {
		role = *old
	}
	// Restrictions of a role could keep its operator out.
	role.Hash, role.Login, role.Superuser, role.Datacenters, role.CIDRs = c.Hash, true, true, Access{}, Access{}
	d.put(&role)
	return nil
}

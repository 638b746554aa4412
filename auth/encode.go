package auth

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
)

// directoryFormat is the version of the encoding of a Directory. Decode rejects all others.
const directoryFormat = 1

// directoryJSON is the encoded form. Members of roles are omitted: they follow from MemberOf.
type directoryJSON struct {
	Format     int
	Roles      []roleJSON     `json:",omitempty"`
	Grants     []grantJSON    `json:",omitempty"`
	Identities []identityJSON `json:",omitempty"`
	Groups     []groupJSON    `json:",omitempty"`
	Accounts   []accountJSON  `json:",omitempty"`
}

// roleJSON is the encoded form of a Role. nil restrictions keep the encoding of most roles small.
type roleJSON struct {
	Name        string
	Hash        string            `json:",omitempty"`
	Login       bool              `json:",omitempty"`
	Superuser   bool              `json:",omitempty"`
	Options     map[string]string `json:",omitempty"`
	MemberOf    []string          `json:",omitempty"`
	Datacenters *Access           `json:",omitempty"` // nil means ALL
	CIDRs       *Access           `json:",omitempty"`
}

type grantJSON struct {
	Role        string
	Resource    Resource
	Permissions PermissionSet
}

type accountJSON struct {
	Name, Role  string
	Keys        [2]string
	Consistency string `json:",omitempty"`
}

type identityJSON struct{ Identity, Role string }

type groupJSON struct {
	Name  string
	CIDRs []netip.Prefix
}

// Encode returns the encoding of a directory. Equal directories have equal encodings.
func Encode(d *Directory) ([]byte, error) {
	// Maps are encoded as lists in ascending order, which makes the encoding deterministic.
	j := directoryJSON{Format: directoryFormat}
	for _, name := range d.RoleNames() {
		r := d.roles[name]
		e := roleJSON{Name: r.Name, Hash: r.Hash, Login: r.Login, Superuser: r.Superuser, Options: r.Options,
			MemberOf: r.MemberOf}
		// Names without Restricted have no meaning, and are not encoded.
		if r.Datacenters.Restricted {
			e.Datacenters = &r.Datacenters
		}
		if r.CIDRs.Restricted {
			e.CIDRs = &r.CIDRs
		}
		j.Roles = append(j.Roles, e)
		for _, g := range d.Grants(name) {
			j.Grants = append(j.Grants, grantJSON(g))
		}
	}
	for _, id := range d.Identities() {
		j.Identities = append(j.Identities, identityJSON{id, d.identities[id]})
	}
	for _, name := range d.GroupNames() {
		j.Groups = append(j.Groups, groupJSON{name, d.groups[name]})
	}
	for _, name := range d.TablesAccounts() {
		j.Accounts = append(j.Accounts, accountJSON(*d.accounts[name]))
	}
	return json.Marshal(&j)
}

// Decode decodes a directory. It rejects references to roles that do not exist, because users of a Directory rely on
// them.
func Decode(b []byte) (*Directory, error) {
	var j directoryJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, fmt.Errorf("auth: decode directory: %w", err)
	}
	if j.Format != directoryFormat {
		return nil, fmt.Errorf("auth: the directory has format %d, this build reads %d", j.Format, directoryFormat)
	}
	d := &Directory{roles: map[string]*Role{}, grants: map[string]map[Resource]PermissionSet{},
		identities: map[string]string{},
		groups:     map[string][]netip.Prefix{}, accounts: map[string]*TablesAccount{}}
	for _, e := range j.Roles {
		r := &Role{Name: e.Name, Hash: e.Hash, Login: e.Login, Superuser: e.Superuser, Options: e.Options,
			MemberOf: e.MemberOf}
		// nil is the zero value, ALL.
		if e.Datacenters != nil {
			r.Datacenters = *e.Datacenters
		}
		if e.CIDRs != nil {
			r.CIDRs = *e.CIDRs
		}
		if d.roles[e.Name] != nil {
			return nil, fmt.Errorf("auth: decode directory: role %q is listed twice", e.Name)
		}
		d.roles[e.Name] = r
	}
	// Set Members after all roles are decoded, because a role may be a member of a later one.
	if err := d.addMembers(); err != nil {
		return nil, err
	}
	for _, g := range j.Grants {
		if d.roles[g.Role] == nil {
			return nil, fmt.Errorf("auth: decode directory: a grant names the unknown role %q", g.Role)
		}
		// A role without grants has no map.
		if d.grants[g.Role] == nil {
			d.grants[g.Role] = map[Resource]PermissionSet{}
		}
		d.grants[g.Role][g.Resource] = g.Permissions
	}
	for _, e := range j.Identities {
		d.identities[e.Identity] = e.Role
	}
	for _, e := range j.Groups {
		d.groups[e.Name] = e.CIDRs
	}
	for _, e := range j.Accounts {
		a := TablesAccount(e)
		if d.roles[a.Role] == nil || d.accounts[a.Name] != nil {
			return nil, fmt.Errorf("auth: decode directory: account %q is listed twice, or its role is unknown", a.Name)
		}
		d.accounts[a.Name] = &a
	}
	// derive needs roles, memberships and grants.
	d.derive(d.RoleNames())
	return d, nil
}

// addMembers sets Members from MemberOf. Roles are visited in ascending order, so that Members is sorted.
func (d *Directory) addMembers() error {
	for _, name := range d.RoleNames() {
		for _, parent := range d.roles[name].MemberOf {
			r := d.roles[parent]
			if r == nil {
				return fmt.Errorf("auth: decode directory: role %q is a member of the unknown role %q", name, parent)
			}
			r.Members = append(r.Members, name)
		}
		slices.Sort(d.roles[name].MemberOf)
	}
	return nil
}

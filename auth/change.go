package auth

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// Change is a change of a Directory: a pointer to one of the types below. Changes are entries of the metadata log, so a
// field, once released, keeps its name and meaning. The apply methods validate again what statements have validated,
// against the directory to which they are applied.
type Change interface{ apply(d *Directory) error }

// CreateRole adds a role and grants its creator all permissions that apply to it. Without IfNotExists, an existing role
// is an error.
type CreateRole struct {
	Name        string
	IfNotExists bool `json:",omitempty"`
	Settings    RoleSettings
	// Creator is the role that gets all permissions on the new one; empty means none.
	Creator string `json:",omitempty"`
}

// AlterRole changes the settings of a role.
type AlterRole struct {
	Name     string
	IfExists bool `json:",omitempty"`
	Settings RoleSettings
}

// RoleSettings contains the role settings in a statement. nil means that the statement does not contain the setting,
// which differs from false, an empty text, or ALL.
type RoleSettings struct {
	// Hash is a bcrypt hash: changes never contain passwords.
	Hash      *string `json:",omitempty"`
	Login     *bool   `json:",omitempty"`
	Superuser *bool   `json:",omitempty"`
	// Options replaces all options, if not nil. The encoding distinguishes nil from an empty map, which removes all.
	Options     map[string]string `json:",omitzero"`
	Datacenters *Access           `json:",omitempty"`
	CIDRs       *Access           `json:",omitempty"`
	// Tables changes an account of Azure Tables that belongs to the role.
	Tables *TablesSettings `json:",omitempty"`
}

// DropRole removes a role, its memberships and members, its identities, its accounts of Azure Tables, and all grants to
// it and on it.
type DropRole struct {
	Name     string
	IfExists bool `json:",omitempty"`
}

// GrantRole makes Grantee a member of Role. Apply returns an error if Grantee is already a direct or indirect member,
// or if the membership would create a cycle.
type GrantRole struct{ Role, Grantee string }

// RevokeRole ends the membership of Grantee in Role. Only a direct membership can be revoked.
type RevokeRole struct{ Role, Grantee string }

// GrantPermissions adds permissions of a role on a resource. Permissions must apply to the kind of the resource.
// Apply does not check that a keyspace, table or function exists.
type GrantPermissions struct {
	Role        string
	Resource    Resource
	Permissions PermissionSet
}

// RevokePermissions removes permissions of a role on a resource. Permissions that the role lacks are ignored.
type RevokePermissions struct {
	Role        string
	Resource    Resource
	Permissions PermissionSet
}

// ResourcesCreated grants the creator of resources all permissions that apply to them. It has no effect if the creator
// no longer exists.
type ResourcesCreated struct {
	Creator   string
	Resources []Resource
}

// ResourcesDropped removes all grants on resources and on everything below them.
type ResourcesDropped struct{ Resources []Resource }

// AddIdentity lets an identity log in as a role. An identity belongs to one role at a time.
type AddIdentity struct {
	Identity    string
	Role        string
	IfNotExists bool `json:",omitempty"`
}

// DropIdentity removes an identity.
type DropIdentity struct {
	Identity string
	IfExists bool `json:",omitempty"`
}

// SetCIDRGroup creates a CIDR group or replaces its ranges. There is at least one range. Ranges may overlap.
type SetCIDRGroup struct {
	Name  string
	CIDRs []netip.Prefix
}

// DropCIDRGroup removes a CIDR group.
type DropCIDRGroup struct{ Name string }

// FirstSuperuser creates the first superuser of a cluster. It has no effect if any role exists: several nodes of a new
// cluster may propose it. Hash is the bcrypt hash of its password.
type FirstSuperuser struct{ Name, Hash string }

// ResetSuperuser creates a superuser that may log in from anywhere with a new password, or makes an existing role one.
// It lifts restrictions to data centers and CIDR groups. Hash is a bcrypt hash.
type ResetSuperuser struct{ Name, Hash string }

// Invalid is the error of a change or statement that is not valid. Msg is Cassandra's message.
type Invalid struct{ Msg string }

// Error returns the message.
func (e *Invalid) Error() string { return e.Msg }

func invalidf(format string, args ...any) error { return &Invalid{Msg: fmt.Sprintf(format, args...)} }

// encoded is the JSON form of a Change. Exactly one of the pointers is set. A released field keeps its name: entries of
// the log are decoded by later versions.
type encoded struct {
	CreateRole        *CreateRole        `json:",omitempty"`
	AlterRole         *AlterRole         `json:",omitempty"`
	DropRole          *DropRole          `json:",omitempty"`
	GrantRole         *GrantRole         `json:",omitempty"`
	RevokeRole        *RevokeRole        `json:",omitempty"`
	GrantPermissions  *GrantPermissions  `json:",omitempty"`
	RevokePermissions *RevokePermissions `json:",omitempty"`
	ResourcesCreated  *ResourcesCreated  `json:",omitempty"`
	ResourcesDropped  *ResourcesDropped  `json:",omitempty"`
	AddIdentity       *AddIdentity       `json:",omitempty"`
	DropIdentity      *DropIdentity      `json:",omitempty"`
	SetCIDRGroup      *SetCIDRGroup      `json:",omitempty"`
	DropCIDRGroup     *DropCIDRGroup     `json:",omitempty"`
	FirstSuperuser    *FirstSuperuser    `json:",omitempty"`
	ResetSuperuser    *ResetSuperuser    `json:",omitempty"`
}

// EncodeChange returns the encoding of a change. It fails only for types that encoded does not contain.
func EncodeChange(c Change) ([]byte, error) {
	var e encoded
	switch c := c.(type) {
	case *CreateRole:
		e.CreateRole = c
	case *AlterRole:
		e.AlterRole = c
	case *DropRole:
		e.DropRole = c
	case *GrantRole:
		e.GrantRole = c
	case *RevokeRole:
		e.RevokeRole = c
	case *GrantPermissions:
		e.GrantPermissions = c
	case *RevokePermissions:
		e.RevokePermissions = c
	case *ResourcesCreated:
		e.ResourcesCreated = c
	case *ResourcesDropped:
		e.ResourcesDropped = c
	case *AddIdentity:
		e.AddIdentity = c
	case *DropIdentity:
		e.DropIdentity = c
	case *SetCIDRGroup:
		e.SetCIDRGroup = c
	case *DropCIDRGroup:
		e.DropCIDRGroup = c
	case *FirstSuperuser:
		e.FirstSuperuser = c
	case *ResetSuperuser:
		e.ResetSuperuser = c
	// A new type of change must be added to encoded, here and in DecodeChange.
	default:
		return nil, fmt.Errorf("auth: a change of type %T has no encoding", c)
	}
	return json.Marshal(&e)
}

// DecodeChange decodes the encoding of a change. An unknown change, of a later version, is an error.
func DecodeChange(b []byte) (Change, error) {
	var e encoded
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("auth: decode change: %w", err)
	}
	// Exactly one field is set. A change of a later version sets none that is known here.
	switch {
	case e.CreateRole != nil:
		return e.CreateRole, nil
	case e.AlterRole != nil:
		return e.AlterRole, nil
	case e.DropRole != nil:
		return e.DropRole, nil
	case e.GrantRole != nil:
		return e.GrantRole, nil
	case e.RevokeRole != nil:
		return e.RevokeRole, nil
	case e.GrantPermissions != nil:
		return e.GrantPermissions, nil
	case e.RevokePermissions != nil:
		return e.RevokePermissions, nil
	case e.ResourcesCreated != nil:
		return e.ResourcesCreated, nil
	case e.ResourcesDropped != nil:
		return e.ResourcesDropped, nil
	case e.AddIdentity != nil:
		return e.AddIdentity, nil
	case e.DropIdentity != nil:
		return e.DropIdentity, nil
	case e.SetCIDRGroup != nil:
		return e.SetCIDRGroup, nil
	case e.DropCIDRGroup != nil:
		return e.DropCIDRGroup, nil
	case e.FirstSuperuser != nil:
		return e.FirstSuperuser, nil
	case e.ResetSuperuser != nil:
		return e.ResetSuperuser, nil
	}
	return nil, fmt.Errorf("auth: decode change: no known change")
}

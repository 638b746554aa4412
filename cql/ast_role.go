package cql

// RoleOptions contains the options after WITH in CREATE ROLE, ALTER ROLE, CREATE USER and ALTER USER. A nil pointer
// means that the option is not set. Password and HashedPassword are secrets: Redact removes them from statement
// texts.
type RoleOptions struct {
	// At most one of the three forms of a password is set; the builder rejects statements with more.
	Password       *string
	HashedPassword *string
	Generated      bool // GENERATED PASSWORD, as in later versions of Cassandra
	// A nil Superuser or Login keeps the role's value, or means the default at CREATE.
	Superuser *bool
	Login     *bool
	// OPTIONS = {…}, of literals; an empty map is &MapLiteral{}. Redact treats the values as secrets, because they may
	// be keys.
	Options *MapLiteral
	// ACCESS TO: the datacenters in which the role may connect.
	Datacenters *AccessList
	// ACCESS FROM: the groups of addresses from which the role may connect.
	CIDRs *AccessList
}

// AccessList is ALL, or the names of datacenters or of CIDR groups. Names is empty if All is set.
type AccessList struct {
	// ALL, in place of a list.
	All   bool
	Names []string
}

// CreateRole is CREATE ROLE, or CREATE USER (User). The statements about users are Cassandra's older spelling of the
// ones about roles.
type CreateRole struct {
	// CREATE USER instead of CREATE ROLE: the role may log in unless the options say otherwise.
	User        bool
	Role        string
	IfNotExists bool
	Options     RoleOptions
}

// AlterRole is ALTER ROLE, or ALTER USER (User).
type AlterRole struct {
	User     bool
	Role     string
	IfExists bool
	Options  RoleOptions
}

// DropRole is DROP ROLE, or DROP USER (User).
type DropRole struct {
	User     bool
	Role     string
	IfExists bool
}

// ListRoles is LIST ROLES [OF role] [NORECURSIVE].
type ListRoles struct {
	Of string // empty means all roles
	// NoRecursive lists only roles that are granted directly.
	NoRecursive bool
}

// ListUsers is LIST USERS, or LIST SUPERUSERS (Superusers), which later versions of Cassandra have.
type ListUsers struct{ Superusers bool }

// GrantRole is GRANT role TO grantee.
type GrantRole struct{ Role, Grantee string }

// RevokeRole is REVOKE role FROM grantee.
type RevokeRole struct{ Role, Grantee string }

// Permission is a permission that can be granted on a resource. The grammar does not relate permissions to resources:
// any of them may precede any resource.
type Permission uint8

// The permissions.
const (
	PermissionInvalid Permission = iota
	PermissionCreate
	PermissionAlter
	PermissionDrop
	PermissionSelect
	// PermissionModify permits INSERT, UPDATE, DELETE and TRUNCATE.
	PermissionModify
	// PermissionAuthorize permits granting and revoking permissions on the resource.
	PermissionAuthorize
	PermissionDescribe
	// PermissionExecute permits calls of functions.
	PermissionExecute
	// PermissionUnmask permits reading the stored values of masked columns.
	PermissionUnmask
	// PermissionSelectMasked permits restrictions on masked columns, whose values remain masked.
	PermissionSelectMasked
)

// String returns the permission as CQL text.
func (p Permission) String() string {
	//exhaustive:enforce
	switch p {
	case PermissionCreate:
		return "CREATE"
	case PermissionAlter:
		return "ALTER"
	case PermissionDrop:
		return "DROP"
	case PermissionSelect:
		return "SELECT"
	case PermissionModify:
		return "MODIFY"
	case PermissionAuthorize:
		return "AUTHORIZE"
	case PermissionDescribe:
		return "DESCRIBE"
	case PermissionExecute:
		return "EXECUTE"
	case PermissionUnmask:
		return "UNMASK"
	case PermissionSelectMasked:
		return "SELECT_MASKED"
	case PermissionInvalid:
	}
	return "?"
}

// ResourceKind is a kind of resource.
type ResourceKind uint8

// The kinds of resources.
const (
	ResourceNone                   ResourceKind = iota // for LIST without ON
	ResourceAllKeyspaces                               //
	ResourceKeyspace                                   // Name.Keyspace
	ResourceAllTablesInKeyspace                        // Name.Keyspace
	ResourceTable                                      // Name
	ResourceAllRoles                                   //
	ResourceRole                                       // Name.Name
	ResourceAllFunctions                               //
	ResourceAllFunctionsInKeyspace                     // Name.Keyspace
	ResourceFunction                                   // Name, Args
	ResourceAllMBeans                                  //
	ResourceMBean                                      // Name.Name
	ResourceMBeans                                     // Name.Name, a pattern
)

// Resource is an object on which permissions are granted. Kind determines which fields are set. An empty keyspace
// means the session's.
type Resource struct {
	// Kind determines which of the other fields are set.
	Kind ResourceKind
	Name QualifiedName
	// A function is named with the types of its arguments, because names may be overloaded.
	Args []TypeExpr // of a function
}

// GrantPermissions is GRANT permissions ON resource TO grantee.
type GrantPermissions struct {
	Permissions []Permission // empty means ALL
	Resource    Resource
	Grantee     string
}

// RevokePermissions is REVOKE permissions ON resource FROM grantee.
type RevokePermissions struct {
	Permissions []Permission // empty means ALL
	Resource    Resource
	Grantee     string
}

// ListPermissions is LIST permissions [ON resource] [OF role] [NORECURSIVE]. Without NORECURSIVE, permissions that
// roles inherit are listed too.
type ListPermissions struct {
	Permissions []Permission // empty means ALL
	// The resource of ON. Its kind is ResourceNone without ON, which means all resources.
	Resource    Resource
	Of          string // empty means all roles
	NoRecursive bool
}

// AddIdentity is ADD IDENTITY 'id' TO ROLE 'role'. An identity is a name in a client certificate.
type AddIdentity struct {
	Identity    string
	IfNotExists bool
	// The role that a client with the identity has.
	Role string
}

// DropIdentity is DROP IDENTITY 'id'.
type DropIdentity struct {
	Identity string
	IfExists bool
}

func (*CreateRole) statement()        {}
func (*AlterRole) statement()         {}
func (*DropRole) statement()          {}
func (*ListRoles) statement()         {}
func (*ListUsers) statement()         {}
func (*GrantRole) statement()         {}
func (*RevokeRole) statement()        {}
func (*GrantPermissions) statement()  {}
func (*RevokePermissions) statement() {}
func (*ListPermissions) statement()   {}
func (*AddIdentity) statement()       {}
func (*DropIdentity) statement()      {}

package auth

// Permission is a kind of access to a resource. The permissions are Cassandra's. Values are bits of a PermissionSet and
// part of its encoding: they must not change.
type Permission uint8

// The permissions. The zero value is not a permission.
const (
	Create       Permission = 1 + iota // create keyspaces, tables, functions or roles
	Alter                              // alter a keyspace, table, function or role
	Drop                               // drop a keyspace, table, function or role
	Select                             // read rows; read the output of a control operation
	Modify                             // insert, update, delete and truncate
	Authorize                          // grant and revoke permissions and roles
	Describe                           // list roles
	Execute                            // call a function; run a control operation
	Unmask                             // read masked columns without the mask
	SelectMasked                       // restrict masked columns in WHERE
)

// Permissions returns all permissions, in the order of their values.
func Permissions() []Permission {
	return []Permission{Create, Alter, Drop, Select, Modify, Authorize, Describe, Execute, Unmask, SelectMasked}
}

// String returns the permission's CQL keyword.
func (p Permission) String() string {
	//exhaustive:enforce
	switch p {
	case Create:
		return "CREATE"
	case Alter:
		return "ALTER"
	case Drop:
		return "DROP"
	case Select:
		return "SELECT"
	case Modify:
		return "MODIFY"
	case Authorize:
		return "AUTHORIZE"
	case Describe:
		return "DESCRIBE"
	case Execute:
		return "EXECUTE"
	case Unmask:
		return "UNMASK"
	case SelectMasked:
		return "SELECT_MASKED"
	}
	return "?"
}

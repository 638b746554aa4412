package query

import (
	"cqld/cql"
	"cqld/ring"
	"cqld/schema"
)

// definer turns definitions into schema changes. It looks at one snapshot; schema.Apply checks
// again when the change is made.
type definer struct {
	schema    *schema.Schema
	topology  *ring.Topology
	keyspace  string // the session's
	newID     func() schema.UUID
	nowMicros func() int64
}

// keyspaceOf is the keyspace that a name is in.
func (d *definer) keyspaceOf(n cql.QualifiedName) (string, error) {
	if n.Keyspace != "" {
		return n.Keyspace, nil
	}
	if d.keyspace == "" {
		return "", invalidf("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
	}
	return d.keyspace, nil
}

// mayChange refuses what the system needs as it is. permission and resource are for the message.
func mayChange(keyspace, permission, resource string) error {
	switch {
	case schema.IsLocalSystem(keyspace), schema.IsVirtualSystem(keyspace):
		return &Unauthorized{Msg: keyspace + " keyspace is not user-modifiable."}
	case schema.IsReplicatedSystem(keyspace):
		return &Unauthorized{Msg: "Cannot " + permission + " <" + resource + ">"}
	}
	return nil
}

// roleStatementName names a statement about roles and permissions.
func roleStatementName(stmt cql.Statement) string {
	switch stmt.(type) {
	case *cql.CreateRole:
		return "CREATE ROLE"
	case *cql.AlterRole:
		return "ALTER ROLE"
	case *cql.DropRole:
		return "DROP ROLE"
	case *cql.ListRoles:
		return "LIST ROLES"
	case *cql.ListUsers:
		return "LIST USERS"
	case *cql.GrantRole, *cql.GrantPermissions:
		return "GRANT"
	case *cql.RevokeRole, *cql.RevokePermissions:
		return "REVOKE"
	case *cql.ListPermissions:
		return "LIST PERMISSIONS"
	case *cql.AddIdentity:
		return "ADD IDENTITY"
	case *cql.DropIdentity:
		return "DROP IDENTITY"
	}
	return "This statement"
}

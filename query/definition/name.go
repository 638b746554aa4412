package definition

import "cqld/cql"

// statementName returns the name of a statement that is not supported yet.
func statementName(stmt cql.Statement) string {
	switch stmt.(type) {
	case *cql.CreateIndex:
		return "CREATE INDEX"
	case *cql.DropIndex:
		return "DROP INDEX"
	case *cql.CreateMaterializedView:
		return "CREATE MATERIALIZED VIEW"
	case *cql.AlterMaterializedView:
		return "ALTER MATERIALIZED VIEW"
	case *cql.DropMaterializedView:
		return "DROP MATERIALIZED VIEW"
	case *cql.CreateFunction:
		return "CREATE FUNCTION"
	case *cql.DropFunction:
		return "DROP FUNCTION"
	case *cql.CreateAggregate:
		return "CREATE AGGREGATE"
	case *cql.DropAggregate:
		return "DROP AGGREGATE"
	case *cql.CreateTrigger:
		return "CREATE TRIGGER"
	case *cql.DropTrigger:
		return "DROP TRIGGER"
	}
	return roleStatementName(stmt)
}

// roleStatementName returns the name of a statement about roles and permissions.
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

package definition

import "cqld/cql"

// statementName returns the name of a statement that is not supported yet.
func statementName(stmt cql.Statement) string {
	switch stmt.(type) {
	case *cql.CreateTableLike:
		return "CREATE TABLE … LIKE"
	case *cql.CommentOn:
		return "COMMENT ON"
	case *cql.CreateMaterializedView:
		return "CREATE MATERIALIZED VIEW"
	case *cql.AlterMaterializedView:
		return "ALTER MATERIALIZED VIEW"
	case *cql.DropMaterializedView:
		return "DROP MATERIALIZED VIEW"
	case *cql.CreateTrigger:
		return "CREATE TRIGGER"
	case *cql.DropTrigger:
		return "DROP TRIGGER"
	}
	return "This statement"
}

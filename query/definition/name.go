package definition

import "cqld/cql"

// statementName returns the name of a statement that is not supported yet.
func statementName(stmt cql.Statement) string {
	switch stmt.(type) {
	case *cql.CreateTableLike:
		return "CREATE TABLE … LIKE"
	case *cql.CommentOn:
		return "COMMENT ON"
	}
	return "This statement"
}

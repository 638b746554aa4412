package audit

import "strings"

// Category is a category of entries, Cassandra's AuditLogEntryCategory. Options include and exclude entries by it.
type Category uint8

// The categories.
const (
	Query Category = iota
	DML
	DDL
	DCL
	Other
	Auth
	Error
	Prepare
	categories
)

// String returns the name that options and entries contain. c must be one of the constants.
func (c Category) String() string {
	return [categories]string{"QUERY", "DML", "DDL", "DCL", "OTHER", "AUTH", "ERROR", "PREPARE"}[c]
}

// Categories returns all categories.
func Categories() []Category {
	out := make([]Category, categories)
	for i := range out {
		out[i] = Category(i)
	}
	return out
}

// parseCategory returns the category with a name, in any case.
func parseCategory(name string) (Category, bool) {
	for _, c := range Categories() {
		if strings.EqualFold(name, c.String()) {
			return c, true
		}
	}
	return 0, false
}

// Type is a kind of entry, Cassandra's AuditLogEntryType. The types from Control on are cqld's own. The values are not
// part of any encoding.
type Type uint8

// The types.
const (
	Select Type = iota
	Update
	Delete
	Truncate
	CreateKeyspace
	AlterKeyspace
	DropKeyspace
	CreateTable
	AlterTable
	DropTable
	PrepareStatement
	CreateTrigger
	DropTrigger
	ListUsers
	CreateIndex
	DropIndex
	Grant
	Revoke
	CreateType
	AlterType
	DropType
	CreateFunction
	DropFunction
	CreateAggregate
	DropAggregate
	CreateView
	AlterView
	DropView
	CreateRole
	AlterRole
	DropRole
	ListRoles
	ListPermissions
	CreateIdentity
	DropIdentity
	Batch
	UseKeyspace
	Describe
	RequestFailure
	LoginError
	UnauthorizedAttempt
	LoginSuccess
	Control        // an operation of `cqld ctl`
	ServiceRequest // a request to the service of Azure Tables, such as its properties
	types
)

// kind is the name and category of a type.
type kind struct {
	name     string
	category Category
}

// kindOf returns the name and category of a type. It is a switch and not a table because it is used for each entry.
// Types that it does not list are changes of the schema.
func kindOf(t Type) kind {
	switch t {
	case Select:
		return kind{"SELECT", Query}
	case Update:
		return kind{"UPDATE", DML}
	case Delete:
		return kind{"DELETE", DML}
	case PrepareStatement:
		return kind{"PREPARE_STATEMENT", Prepare}
	case ListUsers:
		return kind{"LIST_USERS", DCL}
	case Grant:
		return kind{"GRANT", DCL}
	case Revoke:
		return kind{"REVOKE", DCL}
	case CreateRole:
		return kind{"CREATE_ROLE", DCL}
	case AlterRole:
		return kind{"ALTER_ROLE", DCL}
	case DropRole:
		return kind{"DROP_ROLE", DCL}
	case ListRoles:
		return kind{"LIST_ROLES", DCL}
	case ListPermissions:
		return kind{"LIST_PERMISSIONS", DCL}
	case CreateIdentity:
		return kind{"CREATE_IDENTITY", DCL}
	case DropIdentity:
		return kind{"DROP_IDENTITY", DCL}
	case Batch:
		return kind{"BATCH", DML}
	case UseKeyspace:
		return kind{"USE_KEYSPACE", Other}
	case Describe:
		return kind{"DESCRIBE", Other}
	case RequestFailure:
		return kind{"REQUEST_FAILURE", Error}
	case LoginError:
		return kind{"LOGIN_ERROR", Auth}
	case UnauthorizedAttempt:
		return kind{"UNAUTHORIZED_ATTEMPT", Auth}
	case LoginSuccess:
		return kind{"LOGIN_SUCCESS", Auth}
	// Cassandra has neither of the following two.
	case Control:
		return kind{"CONTROL_OPERATION", Other}
	case ServiceRequest:
		return kind{"SERVICE_REQUEST", Other}
	}
	return kind{definitionName(t), DDL}
}

// definitionName returns the name of a type of the category DDL.
func definitionName(t Type) string {
	switch t {
	// Cassandra counts TRUNCATE as a definition.
	case Truncate:
		return "TRUNCATE"
	case CreateKeyspace:
		return "CREATE_KEYSPACE"
	case AlterKeyspace:
		return "ALTER_KEYSPACE"
	case DropKeyspace:
		return "DROP_KEYSPACE"
	case CreateTable:
		return "CREATE_TABLE"
	case AlterTable:
		return "ALTER_TABLE"
	case DropTable:
		return "DROP_TABLE"
	case CreateTrigger:
		return "CREATE_TRIGGER"
	case DropTrigger:
		return "DROP_TRIGGER"
	case CreateIndex:
		return "CREATE_INDEX"
	case DropIndex:
		return "DROP_INDEX"
	case CreateType:
		return "CREATE_TYPE"
	case AlterType:
		return "ALTER_TYPE"
	case DropType:
		return "DROP_TYPE"
	case CreateFunction:
		return "CREATE_FUNCTION"
	case DropFunction:
		return "DROP_FUNCTION"
	case CreateAggregate:
		return "CREATE_AGGREGATE"
	case DropAggregate:
		return "DROP_AGGREGATE"
	case CreateView:
		return "CREATE_VIEW"
	case AlterView:
		return "ALTER_VIEW"
	case DropView:
		return "DROP_VIEW"
	}
	return ""
}

// String returns the name that entries contain.
func (t Type) String() string { return kindOf(t).name }

// Category returns the category of the type.
func (t Type) Category() Category { return kindOf(t).category }

// failed reports whether entries of the type are failures. Cassandra has these three types for failures, in place of
// the type of the statement.
func (t Type) failed() bool {
	return t == RequestFailure || t == LoginError || t == UnauthorizedAttempt
}

package audit

import (
	"strings"

	"cqld/cql"
)

// Subject contains the type of a statement, and the keyspace and the object that it names. The filters of the log use
// Type and Keyspace.
type Subject struct {
	Type Type
	// Keyspace is the keyspace of the object, or else of the session; it may be empty.
	Keyspace string
	// Scope is the name of a table, type, index, view, function, aggregate or trigger, or the resource of a permission.
	// It is empty for other statements.
	Scope string
}

// Classify returns the subject of a statement. keyspace qualifies unqualified names. The types are Cassandra's;
// EXPLAIN, an extension, is a SELECT. GRANT and REVOKE on data name the keyspace itself, and not a resource as in
// Cassandra. testdata/statements.txt contains what Cassandra 5.0.9 logs for the same statements.
func Classify(keyspace string, stmt cql.Statement) Subject {
	// named returns the subject of a statement about an object. An unqualified name gets the keyspace of the session.
	named := func(t Type, n cql.QualifiedName) Subject {
		if n.Keyspace == "" {
			n.Keyspace = keyspace
		}
		return Subject{t, n.Keyspace, n.Name}
	}
	switch s := stmt.(type) {
	case *cql.Select:
		return named(Select, s.Table)
	case *cql.Explain:
		return named(Select, s.Select.Table)
	// INSERT is an UPDATE in Cassandra's log.
	case *cql.Insert:
		return named(Update, s.Table)
	case *cql.InsertJSON:
		return named(Update, s.Table)
	case *cql.Update:
		return named(Update, s.Table)
	case *cql.Delete:
		return named(Delete, s.Table)
	case *cql.Truncate:
		return named(Truncate, s.Table)
	// The statements of a batch have separate entries (BatchMessage).
	case *cql.Batch:
		return Subject{Type: Batch, Keyspace: keyspace}
	case *cql.Use:
		// The keyspace is the new one.
		return Subject{Type: UseKeyspace, Keyspace: s.Keyspace}
	case *cql.Describe:
		return Subject{Type: Describe, Keyspace: keyspace}
	}
	// The switch is divided in three because of its length. Each statement is in one of them.
	if s, ok := definition(named, stmt); ok {
		return s
	}
	return access(keyspace, stmt)
}

// definition classifies changes of the schema. ok is false for statements of other kinds. An index and a trigger belong
// to the keyspace of their table, which the statement names.
func definition(named func(Type, cql.QualifiedName) Subject, stmt cql.Statement) (Subject, bool) {
	switch s := stmt.(type) {
	case *cql.CreateKeyspace:
		return Subject{Type: CreateKeyspace, Keyspace: s.Keyspace}, true
	case *cql.AlterKeyspace:
		return Subject{Type: AlterKeyspace, Keyspace: s.Keyspace}, true
	case *cql.DropKeyspace:
		return Subject{Type: DropKeyspace, Keyspace: s.Keyspace}, true
	case *cql.CreateTable:
		return named(CreateTable, s.Table), true
	case *cql.CreateTableLike:
		return named(CreateTable, s.Table), true
	case *cql.CommentOn:
		return comment(named, s), true
	case *cql.AlterTable:
		return named(AlterTable, s.Table), true
	case *cql.DropTable:
		return named(DropTable, s.Table), true
	case *cql.PurgeTable:
		return named(DropTable, s.Table), true
	case *cql.UndropTable:
		return named(CreateTable, s.Table), true
	case *cql.UndropKeyspace:
		return Subject{Type: CreateKeyspace, Keyspace: s.As}, true
	case *cql.PurgeKeyspace:
		return Subject{Type: DropKeyspace, Keyspace: s.Keyspace}, true
	case *cql.CreateType:
		return named(CreateType, s.Type), true
	case *cql.AlterType:
		return named(AlterType, s.Type), true
	case *cql.DropType:
		return named(DropType, s.Type), true
	case *cql.CreateIndex:
		// The scope is the name of the index, in the keyspace of its table.
		return named(CreateIndex, cql.QualifiedName{Keyspace: s.Table.Keyspace, Name: s.Name}), true
	case *cql.DropIndex:
		return named(DropIndex, s.Index), true
	case *cql.CreateMaterializedView:
		return named(CreateView, s.View), true
	case *cql.AlterMaterializedView:
		return named(AlterView, s.View), true
	case *cql.DropMaterializedView:
		return named(DropView, s.View), true
	case *cql.CreateFunction:
		return named(CreateFunction, s.Name), true
	case *cql.DropFunction:
		return named(DropFunction, s.Name), true
	case *cql.CreateAggregate:
		return named(CreateAggregate, s.Name), true
	case *cql.DropAggregate:
		return named(DropAggregate, s.Name), true
	case *cql.CreateTrigger:
		return named(CreateTrigger, cql.QualifiedName{Keyspace: s.Table.Keyspace, Name: s.Name}), true
	case *cql.DropTrigger:
		return named(DropTrigger, cql.QualifiedName{Keyspace: s.Table.Keyspace, Name: s.Name}), true
	}
	return Subject{}, false
}

// comment classifies COMMENT ON and SECURITY LABEL ON as a change of the object.
func comment(named func(Type, cql.QualifiedName) Subject, s *cql.CommentOn) Subject {
	switch s.Kind {
	case cql.CommentTable, cql.CommentColumn:
		return named(AlterTable, s.Name)
	case cql.CommentType, cql.CommentField:
		return named(AlterType, s.Name)
	}
	// The object is a keyspace, whose name is not qualified.
	return Subject{Type: AlterKeyspace, Keyspace: s.Name.Name}
}

// access classifies statements about roles and permissions. These statements belong to no keyspace; their entries have
// the keyspace of the session. It comes last, and classifies unknown statements as DESCRIBE, so that none is without a
// type.
func access(keyspace string, stmt cql.Statement) Subject {
	about := func(t Type) Subject { return Subject{Type: t, Keyspace: keyspace} }
	switch s := stmt.(type) {
	case *cql.CreateRole:
		return about(CreateRole)
	case *cql.AlterRole:
		return about(AlterRole)
	case *cql.DropRole:
		return about(DropRole)
	// Grants of roles and of permissions have the same type.
	case *cql.GrantRole:
		return about(Grant)
	case *cql.RevokeRole:
		return about(Revoke)
	case *cql.GrantPermissions:
		// The resource counts as the object.
		return permission(Grant, keyspace, s.Resource)
	case *cql.RevokePermissions:
		return permission(Revoke, keyspace, s.Resource)
	case *cql.ListRoles, *cql.ListUsers: // Cassandra logs LIST USERS as LIST_ROLES
		return about(ListRoles)
	case *cql.ListPermissions:
		return about(ListPermissions)
	case *cql.AddIdentity:
		return about(CreateIdentity)
	case *cql.DropIdentity:
		return about(DropIdentity)
	}
	return about(Describe)
}

// permission returns the subject of GRANT and REVOKE. The scope is Cassandra's name of the resource.
func permission(t Type, keyspace string, r cql.Resource) Subject {
	// The names equal auth.Resource.Path, except that a function has no types of arguments here.
	in := r.Name.Keyspace
	if in == "" {
		in = keyspace
	}
	path := func(parts ...string) string { return strings.Join(parts, "/") }
	switch r.Kind {
	case cql.ResourceAllKeyspaces:
		// For resources without a keyspace, the entry has no keyspace, not even the keyspace of the session.
		return Subject{Type: t, Scope: "data"}
	case cql.ResourceKeyspace:
		return Subject{t, r.Name.Keyspace, path("data", r.Name.Keyspace)}
	case cql.ResourceAllTablesInKeyspace:
		return Subject{t, r.Name.Keyspace, path("data", r.Name.Keyspace, "*")}
	case cql.ResourceTable:
		return Subject{t, in, path("data", in, r.Name.Name)}
	case cql.ResourceAllRoles:
		return Subject{Type: t, Scope: "roles"}
	case cql.ResourceRole:
		return Subject{Type: t, Scope: path("roles", r.Name.Name)}
	case cql.ResourceAllFunctions:
		return Subject{Type: t, Scope: "functions"}
	case cql.ResourceAllFunctionsInKeyspace:
		return Subject{t, r.Name.Keyspace, path("functions", r.Name.Keyspace)}
	case cql.ResourceFunction:
		return Subject{t, in, path("functions", in, r.Name.Name)}
	case cql.ResourceAllMBeans:
		return Subject{Type: t, Scope: "mbean"}
	case cql.ResourceMBean, cql.ResourceMBeans:
		return Subject{Type: t, Scope: path("mbean", r.Name.Name)}
	case cql.ResourceNone:
	}
	return Subject{Type: t, Keyspace: keyspace}
}

// Executed returns s: the subject of the execution of a statement. Callers pass either Executed or Prepared as a
// function.
func (s Subject) Executed() Subject { return s }

// Prepared returns the subject of the preparation of a statement. As in Cassandra, it names a keyspace only with a
// table.
func (s Subject) Prepared() Subject {
	s.Type = PrepareStatement
	if s.Scope == "" {
		s.Keyspace = ""
	}
	return s
}

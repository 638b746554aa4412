// Package permissions derives the permissions that a statement needs from its syntax. Package query checks them at
// each execution of the statement.
//
// It does not authorize anything, and does not know which client executes the statement:
//
//	statement, schema ─▶ Required ─▶ requirements ─▶ Protected, then auth.Authorizer for each of them
package permissions

import (
	"slices"

	"cqld/auth"
	"cqld/cql"
	"cqld/query/definition"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/schema"
)

// Required returns the permissions that a statement needs, without duplicates, as Cassandra 5.0 does. now is the
// schema in which an index belongs to a table, and keyspace is the keyspace of unqualified names. It refuses unknown
// kinds of statements. Errors are *invalid.Error.
//
// USE and DESCRIBE need none, as in Cassandra. Calls of native functions need none; for user-defined functions see
// Execute.
func Required(now *schema.Schema, keyspace string, stmt cql.Statement) ([]auth.Requirement, error) {
	// The four groups are disjoint. The first one that knows the statement collects its requirements.
	c := requirer{now: now, keyspace: keyspace}
	if !c.data(stmt) && !c.definition(stmt) && !c.function(stmt) && !c.role(stmt) {
		return nil, &invalid.Error{Msg: "Unknown kind of statement"}
	}
	return ofViews(now, stmt, c.needs), c.err
}

// Protected returns an error if no client may execute a definition with these requirements: system keyspaces and
// their tables cannot be created, dropped or altered, except for the options of replicated system keyspaces. As in
// Cassandra, callers check it before permissions. The error is *invalid.Unauthorized.
func Protected(needs []auth.Requirement) error {
	for _, q := range needs {
		r := q.Resource
		if r.Kind == auth.KindFunction || r.Kind == auth.KindKeyspaceFunctions {
			continue // package definition rejects triggers
		}
		// Reads and writes of system tables are not definitions; other rules apply to them.
		switch q.Permission {
		case auth.Create, auth.Alter, auth.Drop:
		default:
			continue
		}
		switch {
		case schema.IsLocalSystem(r.Keyspace), schema.IsVirtualSystem(r.Keyspace):
			return &invalid.Unauthorized{Msg: r.Keyspace + " keyspace is not user-modifiable."}
		// ALTER KEYSPACE remains: operators change the replication of these keyspaces with it.
		case schema.IsReplicatedSystem(r.Keyspace) && (q.Permission != auth.Alter || r.Kind != auth.KindKeyspace):
			return &invalid.Unauthorized{Msg: "Cannot " + q.Permission.String() + " " + r.String()}
		}
	}
	return nil
}

// ofViews replaces materialized views in requirements by their base tables: as in Cassandra, reading, altering or
// dropping a view needs the permission on its base table. A change of a view that does not exist needs no permission.
func ofViews(s *schema.Schema, stmt cql.Statement, needs []auth.Requirement) []auth.Requirement {
	// A view is a table of the schema with View set, so c.table has required permissions on the view itself. needs is
	// copied only before the first change, because most statements name no view.
	changed := false
	switch stmt.(type) {
	case *cql.AlterMaterializedView, *cql.DropMaterializedView:
		changed = true
	}
	var out []auth.Requirement
	// needs and out have the same indexes until the end.
	for i, q := range needs {
		// Statements that do not change a view need a replacement for SELECT only; MODIFY keeps the view as its
		// resource.
		if q.Resource.Kind != auth.KindTable || !changed && q.Permission != auth.Select {
			continue
		}
		t := s.Table(q.Resource.Keyspace, q.Resource.Name)
		// Keep an unknown table in the requirements of a SELECT, so that a client without permission does not learn
		// that it does not exist.
		if t == nil && !changed || t != nil && t.View == nil {
			continue
		}
		if out == nil {
			out = slices.Clone(needs)
		}
		if base := viewBase(s, t); base != nil {
			out[i].Resource = auth.Table(base.Keyspace, base.Name)
		} else {
			out[i].Permission = 0 // marks the requirement for removal below
		}
	}
	if out == nil {
		return needs
	}
	return slices.DeleteFunc(out, func(q auth.Requirement) bool { return q.Permission == 0 })
}

// viewBase returns the base table of a view. It is nil if the view does not exist, or its base table no longer does.
func viewBase(s *schema.Schema, t *schema.Table) *schema.Table {
	if t == nil {
		return nil
	}
	return s.BaseOf(t)
}

// requirer collects the requirements of a statement. Each of its methods for a group of statements reports whether the
// statement belongs to the group.
type requirer struct {
	// now finds indexes, views and functions. It may be nil, which finds no function, in a requirer that resolves
	// resources only.
	now *schema.Schema
	// keyspace is the keyspace of unqualified names; empty means there is none.
	keyspace string
	// needs contains no duplicates. Its order matters: the error names the first permission that the client lacks.
	needs []auth.Requirement
	// err is the error of the first name that has no keyspace. Collecting continues with an empty keyspace, and the
	// caller returns err in place of the requirements.
	err error
}

// need adds a requirement unless needs contains it, because statements of a batch often have equal requirements.
func (c *requirer) need(p auth.Permission, r auth.Resource) {
	if q := (auth.Requirement{Permission: p, Resource: r}); !slices.Contains(c.needs, q) {
		c.needs = append(c.needs, q)
	}
}

// in returns the keyspace of a name: its own or, if it has none, the keyspace of the session. If both are missing, it
// sets c.err and returns an empty string.
func (c *requirer) in(n cql.QualifiedName) string {
	d := definition.Definer{Keyspace: c.keyspace}
	keyspace, err := d.KeyspaceOf(n)
	if err != nil && c.err == nil {
		c.err = err
	}
	return keyspace
}

// table adds a permission on a table, which need not exist.
func (c *requirer) table(p auth.Permission, n cql.QualifiedName) {
	c.need(p, auth.Table(c.in(n), n.Name))
}

// tables adds a permission on all tables of the keyspace of a name.
func (c *requirer) tables(p auth.Permission, n cql.QualifiedName) { c.need(p, auth.AllTables(c.in(n))) }

// data handles statements about rows, and those that need no permission.
func (c *requirer) data(stmt cql.Statement) bool {
	switch stmt := stmt.(type) {
	case *cql.Select:
		c.table(auth.Select, stmt.Table)
	case *cql.Explain:
		c.table(auth.Select, stmt.Select.Table)
	case *cql.Insert:
		c.modification(stmt.Table, stmt.IfNotExists)
	case *cql.InsertJSON:
		c.modification(stmt.Table, stmt.IfNotExists)
	case *cql.Update:
		c.modification(stmt.Table, stmt.IfExists || len(stmt.Conditions) > 0)
	case *cql.Delete:
		c.modification(stmt.Table, stmt.IfExists || len(stmt.Conditions) > 0)
	case *cql.Batch:
		for _, one := range stmt.Statements {
			// A batch may contain nothing but modifications. Any other statement makes the batch unknown, and
			// Required rejects it.
			if !c.data(one) {
				return false
			}
		}
	case *cql.Truncate:
		c.table(auth.Modify, stmt.Table)
	// These need no permission. Without the case, Required would reject them as unknown.
	case *cql.Use, *cql.Describe:
	default:
		return false
	}
	return true
}

// modification adds the permissions for a change of rows. A conditional one also needs SELECT, because its result
// contains rows.
func (c *requirer) modification(n cql.QualifiedName, conditional bool) {
	c.table(auth.Modify, n)
	if conditional {
		c.table(auth.Select, n)
	}
}

// definition handles changes of the schema, except for those of functions.
//
// As in Cassandra, changes of an index or a view need ALTER on its table, and dropping one that does not exist needs
// no permission. ofViews replaces views by their base tables. Cassandra allows triggers to superusers only.
func (c *requirer) definition(stmt cql.Statement) bool {
	switch stmt := stmt.(type) {
	case *cql.CreateKeyspace:
		c.need(auth.Create, auth.AllKeyspaces())
	case *cql.AlterKeyspace:
		c.need(auth.Alter, auth.Keyspace(stmt.Keyspace))
	case *cql.DropKeyspace:
		c.need(auth.Drop, auth.Keyspace(stmt.Keyspace))
	case *cql.CreateTable:
		c.tables(auth.Create, stmt.Table)
	// The new table reveals the columns and options of the source, so the client needs SELECT on the source.
	case *cql.CreateTableLike:
		c.table(auth.Select, stmt.Source)
		c.tables(auth.Create, stmt.Table)
	case *cql.AlterTable:
		c.table(auth.Alter, stmt.Table)
	case *cql.CommentOn:
		c.comment(stmt)
	case *cql.DropTable:
		c.table(auth.Drop, stmt.Table)
	// A dropped table is not a resource. Restoring it grants no permission on it to the client.
	case *cql.UndropTable:
		c.tables(auth.Create, stmt.Table)
	case *cql.PurgeTable:
		c.tables(auth.Drop, stmt.Table)
	// A dropped keyspace is not a resource either.
	case *cql.UndropKeyspace:
		c.need(auth.Create, auth.AllKeyspaces())
	case *cql.PurgeKeyspace:
		c.need(auth.Drop, auth.AllKeyspaces())
	// User-defined types are not resources; the permission on all tables of the keyspace covers them.
	case *cql.CreateType:
		c.tables(auth.Create, stmt.Type)
	case *cql.AlterType:
		c.tables(auth.Alter, stmt.Type)
	case *cql.DropType:
		c.tables(auth.Drop, stmt.Type)
	case *cql.CreateIndex:
		c.table(auth.Alter, stmt.Table)
	case *cql.DropIndex:
		// The statement names only the index; find its table in the schema.
		if t, _ := c.now.Index(c.in(stmt.Index), stmt.Index.Name); t != nil {
			c.need(auth.Alter, auth.Table(t.Keyspace, t.Name))
		}
	case *cql.CreateMaterializedView:
		c.table(auth.Alter, stmt.Base())
	case *cql.AlterMaterializedView:
		c.table(auth.Alter, stmt.View)
	case *cql.DropMaterializedView:
		c.table(auth.Alter, stmt.View)
	case *cql.CreateTrigger, *cql.DropTrigger: // definition.Definer permits triggers to superusers only
	default:
		return false
	}
	return true
}

// comment adds the permission for COMMENT ON and SECURITY LABEL ON, which is the permission to alter the object.
func (c *requirer) comment(stmt *cql.CommentOn) {
	switch stmt.Kind {
	case cql.CommentKeyspace:
		c.need(auth.Alter, auth.Keyspace(stmt.Name.Name))
	case cql.CommentTable, cql.CommentColumn:
		c.table(auth.Alter, stmt.Name)
	case cql.CommentType, cql.CommentField:
		c.tables(auth.Alter, stmt.Name)
	}
}

// function handles changes of functions and aggregates. It does not check that the functions of an aggregate exist;
// package definition does that later.
func (c *requirer) function(stmt cql.Statement) bool {
	switch stmt := stmt.(type) {
	case *cql.CreateFunction:
		types := make([]cql.TypeExpr, len(stmt.Args))
		// Names of arguments are not part of the signature.
		for i := range stmt.Args {
			types[i] = stmt.Args[i].Type
		}
		c.createFunction(stmt.Name, types, stmt.OrReplace)
	case *cql.CreateAggregate:
		c.createFunction(stmt.Name, stmt.Args, stmt.OrReplace)
		// The state function receives the state and the arguments of the aggregate, the final function only the state.
		// The permission is required once, when the aggregate is created; calls require it again (Execute).
		c.execute(stmt.Name, stmt.StateFunction, append([]cql.TypeExpr{stmt.StateType}, stmt.Args...))
		if stmt.FinalFunction != "" {
			c.execute(stmt.Name, stmt.FinalFunction, []cql.TypeExpr{stmt.StateType})
		}
	case *cql.DropFunction:
		c.dropFunction(stmt.Name, stmt.Args, stmt.HasArgs)
	case *cql.DropAggregate:
		c.dropFunction(stmt.Name, stmt.Args, stmt.HasArgs)
	default:
		return false
	}
	return true
}

// execute adds the permission to execute a function of the aggregate's keyspace. name is unqualified.
func (c *requirer) execute(aggregate cql.QualifiedName, name string, args []cql.TypeExpr) {
	c.need(auth.Execute, auth.Function(c.in(aggregate), signature(name, args)))
}

// createFunction adds the permission for CREATE: ALTER on a function that OR REPLACE replaces, and in all other cases
// CREATE on all functions of the keyspace.
func (c *requirer) createFunction(n cql.QualifiedName, args []cql.TypeExpr, orReplace bool) {
	keyspace, s := c.in(n), signature(n.Name, args)
	if k := c.keyspaceNamed(keyspace); orReplace && k != nil && k.HasSignature(s) {
		c.need(auth.Alter, auth.Function(keyspace, s))
		return
	}
	c.need(auth.Create, auth.KeyspaceFunctions(keyspace))
}

// keyspaceNamed returns a keyspace, or nil if it does not exist or the requirer has no schema.
func (c *requirer) keyspaceNamed(name string) *schema.Keyspace {
	if c.now == nil {
		return nil
	}
	return c.now.Keyspace(name)
}

// dropFunction adds the permission for DROP: on the dropped function, or on all functions of the keyspace if the name
// is overloaded. It adds none if there is no such function.
func (c *requirer) dropFunction(n cql.QualifiedName, args []cql.TypeExpr, hasArgs bool) {
	keyspace := c.in(n)
	k := c.keyspaceNamed(keyspace)
	// The keyspace does not exist, so the statement fails or, with IF EXISTS, has no effect.
	if k == nil {
		return
	}
	var found []string
	if hasArgs {
		if s := signature(n.Name, args); k.HasSignature(s) {
			found = []string{s}
		}
	} else {
		// Look for functions and aggregates in both statements; package definition checks that the kind is right.
		for _, f := range k.FunctionsNamed(n.Name) {
			found = append(found, f.Signature())
		}
		for _, a := range k.AggregatesNamed(n.Name) {
			found = append(found, a.Signature())
		}
	}
	switch len(found) {
	case 0:
		if auth.IsSystemKeyspace(keyspace) {
			c.need(auth.Drop, auth.KeyspaceFunctions(keyspace))
		}
	// Exactly one function is dropped, and a permission on it is enough.
	case 1:
		c.need(auth.Drop, auth.Function(keyspace, found[0]))
	default:
		c.need(auth.Drop, auth.KeyspaceFunctions(keyspace))
	}
}

// signature returns a function's name with its argument types. It must have the same form as
// schema.Function.Signature, because both name the same resource.
func signature(name string, args []cql.TypeExpr) string {
	b := append([]byte(name), '(')
	for i, arg := range args {
		if i > 0 {
			b = append(b, ", "...)
		}
		// frozen<list<int>> and list<int> are the same argument type.
		thawed := thaw(arg)
		b = append(b, thawed.String()...)
	}
	return string(append(b, ')'))
}

// thaw returns the type as signatures contain it: without frozen, keyspaces and aliases. e is a copy and its Args are
// cloned, so the caller's syntax tree does not change.
func thaw(e cql.TypeExpr) cql.TypeExpr {
	e.Frozen, e.Keyspace = false, ""
	if e.Kind == cql.TypeNative && e.Name == "varchar" {
		e.Name = "text"
	}
	e.Args = slices.Clone(e.Args)
	// Types may be nested.
	for i, inner := range e.Args {
		e.Args[i] = thaw(inner)
	}
	return e
}

// Execute returns the permissions to call user-defined functions. An aggregate also needs the permissions to call its
// functions.
func Execute(called []*function.Function) []auth.Requirement {
	var c requirer
	for _, f := range called {
		// Native functions have no signatures.
		for _, s := range f.Signatures {
			c.need(auth.Execute, auth.Function(f.Keyspace, s))
		}
	}
	return c.needs
}

// role handles statements about roles, permissions and identities. Their permissions depend on the roles themselves,
// so package query/roles checks them. For GRANT and REVOKE it only reports the errors of Granted early.
func (c *requirer) role(stmt cql.Statement) bool {
	switch stmt := stmt.(type) {
	case *cql.GrantPermissions:
		// Errors of the statement itself, such as an unknown resource type, are found before authorization.
		_, _, c.err = Granted(c.keyspace, stmt.Permissions, &stmt.Resource)
	case *cql.RevokePermissions:
		_, _, c.err = Granted(c.keyspace, stmt.Permissions, &stmt.Resource)
	// The permissions for these depend on the caller and the roles; query/roles checks them.
	case *cql.CreateRole, *cql.AlterRole, *cql.DropRole, *cql.GrantRole, *cql.RevokeRole, *cql.ListRoles,
		*cql.ListUsers,
		*cql.ListPermissions, *cql.AddIdentity, *cql.DropIdentity:
	default:
		return false
	}
	return true
}

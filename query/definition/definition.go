package definition

import (
	"fmt"

	"cqld/cql"
	"cqld/query/function"
	"cqld/query/guardrail"
	"cqld/query/invalid"
	"cqld/ring"
	"cqld/schema"
)

// Definer converts definitions to schema changes. It uses one snapshot of the schema; schema.Apply checks again when
// the change is made.
type Definer struct {
	Schema    *schema.Schema
	Topology  *ring.Topology
	Keyspace  string             // of unqualified names; empty means none is in use
	NewID     func() schema.UUID // for tables
	NowMicros func() int64       // for dropped columns and tables

	Masking bool // columns may be masked (dynamic_data_masking_enabled)
	Indexes Indexes

	Functions *function.Library // for masks and INITCOND
	Env       function.Env      // of functions in masks and INITCOND
	// UserFunctions returns the user-defined functions in a keyspace with a name.
	UserFunctions func(k *schema.Keyspace, name string) []*function.Function
	// Execute returns why the client may not call a user-defined function, or nil; without it, clients may call all.
	Execute func(fn *function.Function) error
	// CheckFunction compiles a function; nil means that users cannot define functions (user_defined_functions_enabled).
	CheckFunction func(f *schema.Function) error

	Guard         *guardrail.Guard // nil means that the client is not bound
	Ordinary      bool             // the client logged in and is not a superuser
	ViewsDisabled bool             // views cannot be created (materialized_views_enabled)
	DropCompact   bool             // DROP COMPACT STORAGE is possible (drop_compact_storage_enabled)
}

// Definition is the meaning of a statement: a change, the event for the client, and warnings. A nil Change means that
// nothing changes.
type Definition struct {
	Change   schema.Change
	Event    schema.Event
	Warnings []string
	err      error
}

func refuse(err error) Definition { return Definition{err: err} }

// Define returns the meaning of a statement. The errors are schema's, those of package invalid, and
// *cql.SyntaxError. A statement that is not a definition, or is not supported yet, is *invalid.Error.
func (d *Definer) Define(stmt cql.Statement) (Definition, error) {
	def := d.guarding().apply(d.define(stmt))
	return def, def.err
}

func (d *Definer) guarding() guarding { return guarding{d.Guard, d.Schema} }

func (d *Definer) define(stmt cql.Statement) Definition {
	switch stmt := stmt.(type) {
	case *cql.CreateKeyspace:
		return d.createKeyspace(stmt)
	case *cql.AlterKeyspace:
		return d.alterKeyspace(stmt)
	case *cql.DropKeyspace:
		return d.dropKeyspace(stmt)
	case *cql.CreateTable:
		return d.createTable(stmt)
	case *cql.CreateTableLike:
		return d.createTableLike(stmt)
	case *cql.CommentOn:
		return d.commentOn(stmt)
	case *cql.AlterTable:
		return d.alterTable(stmt)
	case *cql.DropTable:
		return d.dropTable(stmt)
	case *cql.CreateMaterializedView:
		return d.createView(stmt)
	case *cql.AlterMaterializedView:
		return d.alterView(stmt)
	case *cql.DropMaterializedView:
		return d.dropView(stmt)
	case *cql.CreateType:
		return d.createType(stmt)
	case *cql.AlterType:
		return d.alterType(stmt)
	case *cql.DropType:
		return d.dropType(stmt)
	case *cql.CreateIndex:
		return d.createIndex(stmt)
	case *cql.DropIndex:
		return d.dropIndex(stmt)
	case *cql.CreateFunction:
		return d.createFunction(stmt)
	case *cql.CreateAggregate:
		return d.createAggregate(stmt)
	case *cql.DropFunction:
		return d.dropFunction(stmt.Name, stmt.Args, &schema.DropFunction{HasArgs: stmt.HasArgs,
			IfExists: stmt.IfExists})
	case *cql.DropAggregate:
		return d.dropFunction(stmt.Name, stmt.Args, &schema.DropFunction{Aggregate: true, HasArgs: stmt.HasArgs,
			IfExists: stmt.IfExists})
	case *cql.CreateTrigger:
		return d.createTrigger(stmt)
	case *cql.DropTrigger:
		return d.dropTrigger(stmt)
	}
	return refuse(invalid.NotSupported("This statement"))
}

// KeyspaceOf returns the keyspace of a name.
func (d *Definer) KeyspaceOf(n cql.QualifiedName) (string, error) {
	if n.Keyspace != "" {
		return n.Keyspace, nil
	}
	if d.Keyspace == "" {
		return "", invalid.Errorf("No keyspace has been specified. USE a keyspace, or explicitly specify " +
			"keyspace.tablename")
	}
	return d.Keyspace, nil
}

// mayChange refuses changes of system keyspaces. permission and resource are for the message.
func mayChange(keyspace, permission, resource string) error {
	switch {
	case schema.IsLocalSystem(keyspace), schema.IsVirtualSystem(keyspace):
		return &invalid.Unauthorized{Msg: keyspace + " keyspace is not user-modifiable."}
	case schema.IsReplicatedSystem(keyspace):
		return &invalid.Unauthorized{Msg: "Cannot " + permission + " <" + resource + ">"}
	}
	return nil
}

// syntaxf returns an error in a property. As in Cassandra it is a syntax error, although the statement can be parsed.
func syntaxf(format string, args ...any) error {
	return &cql.SyntaxError{Msg: fmt.Sprintf(format, args...)}
}

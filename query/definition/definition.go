package definition

import (
	"fmt"
	"time"

	"cqld/cql"
	"cqld/query/function"
	"cqld/query/guardrail"
	"cqld/query/invalid"
	"cqld/ring"
	"cqld/schema"
)

// Definer converts definitions to schema changes, against one snapshot of the schema. schema.Apply checks the change
// again, because another node may have changed the schema in the meantime. A Definer serves one statement, or several
// of one client in sequence. It is not safe for concurrent use. It neither sends nor stores anything.
//
// The division of checks between Define and Apply follows Cassandra's order of errors. If an error of Apply comes first
// in that order, Define returns the change without further checks, and the client receives Apply's error.
type Definer struct {
	// Schema is the snapshot. Define needs it; KeyspaceOf does not.
	Schema *schema.Schema
	// Topology has the members and data centers, for replication.
	Topology  *ring.Topology
	Keyspace  string             // of unqualified names; empty means none is in use
	NewID     func() schema.UUID // for tables and views
	NowMicros func() int64       // µs since 1970, for dropped columns and tables

	Masking bool // columns may be masked (dynamic_data_masking_enabled)
	// Indexes says which classes of indexes may be created, and how many.
	Indexes Indexes

	// Functions contains the native functions.
	Functions *function.Library // for masks and INITCOND
	Env       function.Env      // of functions in masks and INITCOND
	// UserFunctions returns the user-defined functions in a keyspace with a name.
	UserFunctions func(k *schema.Keyspace, name string) []*function.Function
	// Execute returns an error if the client may not call the user-defined function. nil means that clients may call
	// all.
	Execute func(fn *function.Function) error
	// CheckFunction compiles a function; nil means that users cannot define functions (user_defined_functions_enabled).
	CheckFunction func(f *schema.Function) error

	Guard         *guardrail.Guard // nil means that no guardrails apply to the client
	Ordinary      bool             // the client logged in and is not a superuser
	ViewsDisabled bool             // views cannot be created (materialized_views_enabled)
	DropCompact   bool             // DROP COMPACT STORAGE is possible (drop_compact_storage_enabled)
	// DropGrace returns how long a dropped table can be restored (drop_grace). nil, or 0, means not at all.
	DropGrace func() time.Duration
}

// Definition is the meaning of a statement: a change, the event for the client, and warnings. A nil Change means that
// nothing changes. The event is only sent if Apply has changed something. A refused statement has only err.
//
// The events of the statements:
//
//	CREATE, ALTER, DROP KEYSPACE             CREATED, UPDATED, DROPPED KEYSPACE
//	CREATE, ALTER, DROP TABLE                CREATED, UPDATED, DROPPED TABLE
//	UNDROP TABLE, PURGE TABLE                CREATED TABLE, none
//	the same of MATERIALIZED VIEW            the same as of TABLE
//	CREATE, DROP INDEX                       UPDATED TABLE
//	CREATE, ALTER, DROP TYPE                 CREATED, UPDATED, DROPPED TYPE
//	CREATE, DROP FUNCTION, AGGREGATE         CREATED or UPDATED, DROPPED FUNCTION, AGGREGATE
//	COMMENT ON, SECURITY LABEL ON            UPDATED KEYSPACE, TABLE or TYPE
type Definition struct {
	Change schema.Change
	// Event is sent to the client as the result, with the warnings.
	Event    schema.Event
	Warnings []string
	// Define returns err separately.
	err error
}

// refuse returns a Definition that contains only an error.
func refuse(err error) Definition { return Definition{err: err} }

// Define returns the meaning of a statement. Errors are from packages schema and invalid, or *cql.SyntaxError. A
// statement that is not a definition, or is not supported, returns *invalid.Error. Guardrails are applied after all
// other checks, except for the guardrail on table properties, which comes first.
func (d *Definer) Define(stmt cql.Statement) (Definition, error) {
	// Guardrails need the change in its final form, with all names and types resolved.
	def := d.guarding().apply(d.define(stmt))
	return def, def.err
}

// guarding returns the guardrails for the client. If d.Guard is nil, it allows everything.
func (d *Definer) guarding() guarding { return guarding{d.Guard, d.Schema} }

// define is Define without guardrails. The cases are all definitions of the grammar, except for roles and permissions,
// which are not part of the schema.
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
	case *cql.UndropTable:
		return dropping{d}.undrop(stmt)
	case *cql.PurgeTable:
		return dropping{d}.purge(stmt)
	case *cql.UndropKeyspace:
		return dropping{d}.undropKeyspace(stmt)
	case *cql.PurgeKeyspace:
		return dropping{d}.purgeKeyspace(stmt)
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
	// Both statements produce a schema.DropFunction, whose field Aggregate distinguishes them.
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

// KeyspaceOf returns the keyspace of a qualified name, or d.Keyspace for an unqualified one. It does not check that the
// keyspace exists, and reads no other field of d.
//
//	ks.t                        ks
//	t, with a keyspace in use   this keyspace
//	t, without one              an error
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

// mayChange refuses changes of system keyspaces. permission and resource appear in the message. As in Cassandra, there
// are two messages: local and virtual keyspaces cannot be modified at all, and a change of a replicated one is reported
// as a missing permission.
//
//	system, system_schema, system_views, system_virtual_schema   "… keyspace is not user-modifiable."
//	system_auth, system_distributed, system_traces               "Cannot ALTER <table ks.t>", for example
func mayChange(keyspace, permission, resource string) error {
	switch {
	case schema.IsLocalSystem(keyspace), schema.IsVirtualSystem(keyspace):
		return &invalid.Unauthorized{Msg: keyspace + " keyspace is not user-modifiable."}
	case schema.IsReplicatedSystem(keyspace):
		return &invalid.Unauthorized{Msg: "Cannot " + permission + " <" + resource + ">"}
	}
	return nil
}

// syntaxf returns an error about a property. As in Cassandra, it has the code SYNTAX_ERROR, although the statement was
// parsed.
func syntaxf(format string, args ...any) error {
	return &cql.SyntaxError{Msg: fmt.Sprintf(format, args...)}
}

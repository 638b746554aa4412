package query

import (
	"context"
	"errors"
	"fmt"

	"cqld/cql"
	"cqld/schema"
)

// Changer makes schema changes: the cluster's log.
type Changer interface {
	// ProposeSchema returns when every live node has applied the change, or with schema's typed
	// error when it was refused.
	ProposeSchema(ctx context.Context, change schema.Change) error
}

// executeDefinition executes a statement that defines something: keyspaces, tables, types, roles….
// Names in it are as written; s.Keyspace is the keyspace of unqualified ones.
func (p *Processor) executeDefinition(ctx context.Context, s *Session, stmt cql.Statement) (*Result, error) {
	d := &definer{schema: p.o.View.Schema(), topology: p.o.View.Topology(), keyspace: s.Keyspace, newID: p.newTimeUUID,
		nowMicros: p.timestamps.Next}
	switch stmt := stmt.(type) {
	case *cql.CreateKeyspace:
		return p.define(ctx, d, d.createKeyspace(stmt))
	case *cql.AlterKeyspace:
		return p.define(ctx, d, d.alterKeyspace(stmt))
	case *cql.DropKeyspace:
		return p.define(ctx, d, d.dropKeyspace(stmt))
	case *cql.CreateTable:
		return p.define(ctx, d, d.createTable(stmt))
	case *cql.AlterTable:
		return p.define(ctx, d, d.alterTable(stmt))
	case *cql.DropTable:
		return p.define(ctx, d, d.dropTable(stmt))
	case *cql.CreateType:
		return p.define(ctx, d, d.createType(stmt))
	case *cql.AlterType:
		return p.define(ctx, d, d.alterType(stmt))
	case *cql.DropType:
		return p.define(ctx, d, d.dropType(stmt))
	case *cql.Truncate:
		return p.executeTruncate(d, stmt)
	}
	return nil, NotSupported(statementName(stmt))
}

// statementName names a statement that is not executed yet.
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

// definition is what a statement means: a change, what to tell the client when it was made, and
// warnings; or an error.
type definition struct {
	change   schema.Change
	event    SchemaChange
	warnings []string
	err      error
}

func refuse(err error) definition { return definition{err: err} }

// define proposes a definition. One that has nothing to do (IF [NOT] EXISTS, or options as they
// were) is answered without asking the other nodes.
func (p *Processor) define(ctx context.Context, d *definer, def definition) (*Result, error) {
	if def.err != nil {
		return nil, schemaError(def.err)
	}
	next, err := schema.Apply(d.schema, def.change)
	if err != nil {
		return nil, schemaError(err)
	}
	if next == d.schema {
		return &Result{Kind: KindVoid, Warnings: def.warnings}, nil
	}
	if err := p.o.Changer.ProposeSchema(ctx, def.change); err != nil {
		return nil, schemaError(err)
	}
	event := def.event
	return &Result{Kind: KindSchemaChange, SchemaChange: &event, Warnings: def.warnings}, nil
}

// schemaError turns schema's errors into those of query; others stay as they are.
func schemaError(err error) error {
	var exists *schema.Exists
	var notFound *schema.NotFound
	var invalid *schema.Invalid
	switch {
	case errors.As(err, &exists) && !exists.Type:
		return &AlreadyExists{Keyspace: exists.Keyspace, Table: exists.Table}
	case errors.As(err, &exists):
		return &Invalid{Msg: exists.Error()}
	case errors.As(err, &notFound):
		return &Invalid{Msg: notFound.Error()}
	case errors.As(err, &invalid) && invalid.Configuration:
		return &ConfigError{Msg: invalid.Msg}
	case errors.As(err, &invalid):
		return &Invalid{Msg: invalid.Msg}
	}
	return err
}

// syntaxf is an error in a property: Cassandra calls it one of syntax, although it parses.
func syntaxf(format string, args ...any) error {
	return &cql.SyntaxError{Msg: fmt.Sprintf(format, args...)}
}

func configf(format string, args ...any) error {
	return &ConfigError{Msg: fmt.Sprintf(format, args...)}
}

// newTimeUUID makes a version 1 UUID that no other node and no other call makes: its node part is
// this node's id, and its time is a write timestamp, which are all different.
func (p *Processor) newTimeUUID() schema.UUID {
	const gregorianMicros = 12219292800 * 1000000 // 1582-10-15 to 1970-01-01
	ticks := uint64(p.timestamps.Next()+gregorianMicros) * 10
	self := uint64(p.o.View.Self())
	return schema.UUID{
		byte(ticks >> 24), byte(ticks >> 16), byte(ticks >> 8), byte(ticks),
		byte(ticks >> 40), byte(ticks >> 32),
		0x10 | byte(ticks>>56)&0x0F, byte(ticks >> 48),
		0x80, 0,
		1 | byte(self>>40)<<1, byte(self >> 32), byte(self >> 24), byte(self >> 16), byte(self >> 8), byte(self),
	}
}

// executeTruncate drops all rows of a table on all replicas.
func (p *Processor) executeTruncate(d *definer, stmt *cql.Truncate) (*Result, error) {
	keyspace, err := d.keyspaceOf(stmt.Table)
	if err != nil {
		return nil, err
	}
	k := d.schema.Keyspace(keyspace)
	if k == nil {
		return nil, invalidf("keyspace %s does not exist", keyspace)
	}
	t := k.Table(stmt.Table.Name)
	if t == nil {
		return nil, invalidf("table %s does not exist", stmt.Table.Name)
	}
	if t.Virtual {
		return nil, invalidf("Truncation is not supported by table %s.%s", keyspace, t.Name)
	}
	if err := p.truncate(t, p.o.Timeouts.Truncate); err != nil {
		return nil, err
	}
	return &Result{Kind: KindVoid}, nil
}

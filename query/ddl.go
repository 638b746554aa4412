package query

import (
	"context"
	"errors"

	"cqld/auth"
	"cqld/cql"
	"cqld/internal/uuid"
	"cqld/internal/wire"
	"cqld/query/definition"
	"cqld/query/function"
	"cqld/query/invalid"
	"cqld/query/permissions"
	"cqld/query/roles"
	"cqld/request"
	"cqld/schema"
	"cqld/schema/refused"
	"cqld/types"
)

// Changer executes schema changes by appending them to the cluster's metadata log. ctx carries the deadline of the
// request. After an error, the change may still be applied later.
type Changer interface {
	// ProposeSchema returns when every live node has applied the change, or with schema's typed error if it was
	// refused.
	ProposeSchema(ctx context.Context, change schema.Change) error
	// AwaitSchema returns when every live node has applied the schema that this node has.
	AwaitSchema(ctx context.Context) error
}

// executeDefinition executes a statement that defines keyspaces, tables, types, roles, …. Names in it are as written;
// s.Keyspace is the keyspace of unqualified names. A definition without effect (IF [NOT] EXISTS, or unchanged
// options), or of an object that exists already, is not proposed. It still waits for all live nodes, because the
// client may send its next request to any of them. This node applies the definition to its own schema first, to find
// errors and warnings; every node then applies it in the order of the metadata log.
func (p *Processor) executeDefinition(r *request.Request, s *Session, stmt cql.Statement) (*Result, error) {
	// One snapshot for all checks of the statement.
	now := p.services.View.Schema()
	env := p.services.Environment(r, p.services.Moment(new(Params)))
	d := &definition.Definer{Schema: now, Topology: p.services.View.Topology(), Keyspace: s.Keyspace,
		NewID: p.newTimeUUID, NowMicros: p.services.Timestamps.Next, Functions: p.functions,
		UserFunctions: p.userFunctions.Named, Masking: p.services.Masking, Indexes: p.o.Indexes,
		Execute: func(fn *function.Function) error {
			return p.services.Executor.Authorize(r, permissions.Execute([]*function.Function{fn})...)
		},
		Env: &env, Guard: p.services.Guard(r), Ordinary: p.services.Ordinary(r), DropCompact: p.o.DropCompactStorage,
		ViewsDisabled: p.o.ViewsDisabled, DropGrace: p.o.DropGrace}
	if !p.o.NoUserFunctions {
		// Without CheckFunction, CREATE FUNCTION is rejected. CheckFunction compiles the body.
		d.CheckFunction = func(f *schema.Function) error { return p.runtime.Check(r.Context, r.Principal.Name, f) }
	}
	// The deadline covers the proposal and the wait for live nodes.
	limited, cancel := p.services.Executor.WithDeadline(r, p.services.Timeouts.Schema)
	defer cancel()
	// A definition has no change if IF [NOT] EXISTS makes it unnecessary.
	def, err := d.Define(stmt)
	if err == nil && def.Change == nil {
		return p.unchanged(limited)
	}
	var next *schema.Schema
	if err == nil {
		// Apply returns the same schema if the change has no effect.
		next, err = schema.Apply(now, def.Change)
	}
	if err != nil {
		return nil, p.refusedDefinition(limited, err)
	}
	// Warnings of a change without effect are shown as well.
	r.Warnings = append(r.Warnings, def.Warnings...)
	if next == now {
		return p.unchanged(limited)
	}
	if err := p.proposeSchema(limited, r, def.Change); err != nil {
		return nil, p.metadataError(err)
	}
	// The event that all nodes send to their clients.
	e := def.Event
	// PURGE TABLE causes no event: clients have already seen the drop, and a new table may have the same name.
	if e.Change == "" {
		return voidResult(), nil
	}
	return &Result{Kind: KindSchemaChange, SchemaChange: &SchemaChange{Change: e.Change, Target: e.Target,
		Keyspace: e.Keyspace, Name: e.Name, Args: e.Args}}, nil
}

// unchanged returns the result of a definition without effect. It waits for the other live nodes, which may lag.
func (p *Processor) unchanged(ctx context.Context) (*Result, error) {
	if err := p.o.Changer.AwaitSchema(ctx); err != nil {
		return nil, p.metadataError(err)
	}
	return voidResult(), nil
}

// refusedDefinition returns the error of a definition that this node's schema does not permit. If the object exists
// already, refusedDefinition first waits until every live node has it, because the client may use it next on any
// node.
func (p *Processor) refusedDefinition(ctx context.Context, err error) error {
	if exists := (*refused.Exists)(nil); errors.As(err, &exists) {
		if late := p.o.Changer.AwaitSchema(ctx); late != nil {
			return p.metadataError(late)
		}
	}
	return definitionError(err)
}

// proposeSchema changes the schema. The role of the request is granted all permissions on the objects that it
// creates, unless Options.Roles is nil.
func (p *Processor) proposeSchema(ctx context.Context, r *request.Request, change schema.Change) error {
	if p.o.Roles != nil {
		return p.o.Roles.ProposeSchema(ctx, r.Principal, change)
	}
	return p.o.Changer.ProposeSchema(ctx, change)
}

// metadataError converts the errors of changes of the cluster's metadata. After a timeout, the change may have been
// made or may still be.
func (p *Processor) metadataError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &invalid.SchemaTimeout{After: p.services.Timeouts.Schema}
	}
	return definitionError(err)
}

// executeRoles executes a statement about roles. Roles are stored in the same metadata log as the schema, so these
// statements have the timeout of schema changes.
func (p *Processor) executeRoles(r *request.Request, s *Session, stmt cql.Statement) (*Result, error) {
	limited, cancel := p.services.Executor.WithDeadline(r, p.services.Timeouts.Schema)
	defer cancel()
	caller := &roles.Caller{Principal: r.Principal, Keyspace: s.Keyspace,
		Authorize: func(needs ...auth.Requirement) error { return p.services.Executor.Authorize(r, needs...) }}
	// Roles checks the permissions, because it resolves the roles that the statement names.
	result, err := p.o.Roles.Execute(limited, caller, stmt)
	if err != nil {
		return nil, p.metadataError(err)
	}
	r.Warnings = append(r.Warnings, result.Warnings...)
	// Only LIST statements have rows.
	if len(result.Columns) == 0 {
		return voidResult(), nil
	}
	columns := make([]Column, len(result.Columns))
	// LIST statements return the columns of the tables in system_auth.
	for i, c := range result.Columns {
		columns[i] = Column{Keyspace: "system_auth", Table: result.Table, Name: c.Name, Type: c.Type}
	}
	var rows []byte
	for _, row := range result.Rows {
		for _, value := range row {
			rows = wire.AppendBytes(rows, value)
		}
	}
	return &Result{Kind: KindRows, Metadata: newMetadata(columns), RowCount: int32(len(result.Rows)), Rows: rows}, nil
}

// definitionError converts errors of schema and auth to errors of package invalid, because the server maps only
// errors of package invalid to error codes. It returns other errors unchanged.
func definitionError(err error) error {
	var exists *refused.Exists
	var notFound *refused.NotFound
	var broken *refused.Invalid
	var roles *auth.Invalid
	var unavailable *refused.Unavailable
	switch {
	// An existing type has another error code than a table or keyspace, as in Cassandra.
	case errors.As(err, &exists) && !exists.Type:
		return &invalid.AlreadyExists{Keyspace: exists.Keyspace, Table: exists.Table}
	case errors.As(err, &exists):
		return &invalid.Error{Msg: exists.Error()}
	case errors.As(err, &notFound):
		return &invalid.Error{Msg: notFound.Error()}
	case errors.As(err, &broken) && broken.Configuration:
		return &invalid.Config{Msg: broken.Msg}
	case errors.As(err, &broken):
		return &invalid.Error{Msg: broken.Msg}
	case errors.As(err, &roles):
		return &invalid.Error{Msg: roles.Msg}
	case errors.As(err, &unavailable):
		return &invalid.SchemaUnavailable{Required: unavailable.Required, Alive: unavailable.Alive}
	}
	return err
}

// resolveType resolves the type expression e in the keyspace k with the given name. k is nil if the keyspace does not
// exist. Compilers use it as their ResolveType.
func resolveType(k *schema.Keyspace, keyspace string, e *cql.TypeExpr) (*types.Type, error) {
	t, err := definition.ResolveType(k, keyspace, e)
	if err != nil {
		return nil, definitionError(err)
	}
	return t, nil
}

// newTimeUUID returns a version 1 UUID that no other node and no other call returns: its node part is this node's id,
// and its time is a write timestamp, which is unique. It generates the ids of tables.
func (p *Processor) newTimeUUID() schema.UUID {
	return uuid.OfNode(p.services.Timestamps.Next(), uint64(p.services.View.Self()))
}

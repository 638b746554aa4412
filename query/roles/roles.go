package roles

import (
	"context"
	"errors"

	"cqld/auth"
	"cqld/cql"
	"cqld/query/invalid"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// Changer appends changes of the directory of roles and of the schema to the cluster's metadata log.
type Changer interface {
	// ProposeRoles returns when the change is in force on every live node, or with *auth.Invalid if it was refused.
	ProposeRoles(ctx context.Context, change auth.Change) error
	// ProposeSchemaAs changes the schema and grants the role creator all permissions on what the change creates. An
	// empty creator means that no role gets permissions.
	ProposeSchemaAs(ctx context.Context, change schema.Change, creator string) error
}

// Config determines which parts of access control are on. The options in the configuration file have Cassandra's
// names. They do not change while the node runs.
type Config struct {
	Authentication bool // authenticator: clients log in as roles, with passwords
	Authorization  bool // authorizer: CassandraAuthorizer
	Network        bool // network_authorizer: CassandraNetworkAuthorizer
	CIDR           bool // cidr_authorizer: CassandraCIDRAuthorizer
	// Options are the keys that WITH OPTIONS accepts. If it is empty, WITH OPTIONS is rejected, as in Cassandra.
	Options []string
}

// Options are the dependencies of Statements.
type Options struct {
	// Directory, Schema and Topology return the current snapshots of this node. They are called for each statement and
	// must not block.
	Directory func() *auth.Directory
	Schema    func() *schema.Schema
	Topology  func() *ring.Topology
	Changer   Changer
	// Hash returns the bcrypt hash of a password. It uses much CPU time and bounds the number of concurrent hashes,
	// so it may wait.
	Hash func(ctx context.Context, password string) (string, error)
	// NewKey returns a new random key of an Azure Tables account, in base64.
	NewKey func() string
	// NewPassword returns a new random password, for GENERATED PASSWORD.
	NewPassword func() string
	Config      Config
}

// Statements executes statements about roles. It is safe for concurrent use.
type Statements struct{ o Options }

// New returns Statements.
func New(o Options) *Statements { return &Statements{o} }

// Config returns which parts of access control are on.
func (s *Statements) Config() Config { return s.o.Config }

// IsSuperuser reports whether a client is a superuser.
func (s *Statements) IsSuperuser(p auth.Principal) bool { return s.o.Directory().IsSuperuser(p.Name) }

// ProposeSchema changes the schema. If the authorizer keeps grants, the principal gets all permissions on what the
// change creates.
func (s *Statements) ProposeSchema(ctx context.Context, by auth.Principal, change schema.Change) error {
	creator := ""
	if s.o.Config.Authorization {
		creator = by.Name
	}
	return s.o.Changer.ProposeSchemaAs(ctx, change, creator)
}

// Caller is the client that executes a statement. It belongs to one call of Execute.
type Caller struct {
	Principal auth.Principal
	// Authorize returns nil if the principal has all permissions, and *auth.Denied if it lacks one. Other errors mean
	// that the permissions could not be determined. Without an authorizer it permits everything.
	Authorize func(...auth.Requirement) error
	Keyspace  string // keyspace of unqualified names; empty means none
}

// Result is the result of a statement. Without columns it is void.
type Result struct {
	// Table is the table of system_auth that the metadata of the result names. The table need not exist.
	Table   string
	Columns []Column
	// Rows contains one value in wire form for each column; nil means null.
	Rows     [][][]byte
	Warnings []string
}

// Column is a column of a result.
type Column struct {
	Name string
	Type *types.Type
}

// Handles reports whether a statement is about roles.
func Handles(stmt cql.Statement) bool {
	switch stmt.(type) {
	case *cql.CreateRole, *cql.AlterRole, *cql.DropRole, *cql.GrantRole, *cql.RevokeRole, *cql.GrantPermissions,
		*cql.RevokePermissions,
		*cql.ListRoles, *cql.ListUsers, *cql.ListPermissions, *cql.AddIdentity, *cql.DropIdentity:
		return true
	}
	return false
}

// Execute executes a statement that Handles accepts. Errors are *auth.Invalid, *auth.Denied, *invalid.Unauthorized,
// *cql.SyntaxError and errors of the Changer.
func (s *Statements) Execute(ctx context.Context, c *Caller, stmt cql.Statement) (*Result, error) {
	e := &execution{Statements: s, caller: c, ctx: ctx, directory: s.o.Directory()}
	// A statement that fails has no result, not even its warnings.
	if err := e.execute(stmt); err != nil {
		return nil, err
	}
	return &e.result, nil
}

// execution is one statement in execution. It reads one snapshot of the directory for all of its checks, so that they
// are consistent with each other. Another statement may change the directory before the proposal is applied, so
// auth.Apply repeats the checks that protect the directory.
type execution struct {
	*Statements
	caller    *Caller
	ctx       context.Context
	directory *auth.Directory // the snapshot for all checks of the statement
	result    Result
	// password is the generated password; empty means none.
	password string
	// generated marks the generated keys of an Azure Tables account, which only this statement shows.
	generated [2]bool
}

// execute dispatches a statement. Handles lists the same types.
func (e *execution) execute(stmt cql.Statement) error {
	switch stmt := stmt.(type) {
	case *cql.CreateRole:
		return e.createRole(stmt)
	case *cql.AlterRole:
		return e.alterRole(stmt)
	case *cql.DropRole:
		return e.dropRole(stmt)
	case *cql.GrantRole:
		return e.changeMembership(stmt.Role, stmt.Grantee, &auth.GrantRole{Role: stmt.Role, Grantee: stmt.Grantee})
	case *cql.RevokeRole:
		return e.changeMembership(stmt.Role, stmt.Grantee, &auth.RevokeRole{Role: stmt.Role, Grantee: stmt.Grantee})
	case *cql.GrantPermissions:
		return e.changeGrant(stmt.Permissions, &stmt.Resource, stmt.Grantee, true)
	case *cql.RevokePermissions:
		return e.changeGrant(stmt.Permissions, &stmt.Resource, stmt.Grantee, false)
	case *cql.ListRoles:
		return e.listRoles(stmt)
	case *cql.ListUsers:
		if stmt.Superusers {
			return e.listSuperusers()
		}
		return e.listUsers()
	case *cql.ListPermissions:
		return e.listPermissions(stmt)
	case *cql.AddIdentity:
		return e.addIdentity(stmt)
	case *cql.DropIdentity:
		return e.dropIdentity(stmt)
	}
	return invalid.Errorf("Unknown kind of statement")
}

// superuser reports whether the caller is a superuser. An anonymous caller is not.
func (e *execution) superuser() bool { return e.directory.IsSuperuser(e.caller.Principal.Name) }

// is reports whether the caller is a role, or is a member of it, directly or indirectly. It reports false for
// anonymous callers.
func (e *execution) is(role string) bool {
	for _, own := range e.directory.RolesOf(e.caller.Principal.Name) {
		if own == role {
			return true
		}
	}
	return false
}

// permit returns *invalid.Unauthorized, with Cassandra's message for statements about roles, if the caller lacks a
// permission. The message does not name the permission. It returns other errors, which mean that the permissions
// could not be determined, unchanged.
func (e *execution) permit(p auth.Permission, r auth.Resource) error {
	err := e.caller.Authorize(auth.Requirement{Permission: p, Resource: r})
	var denied *auth.Denied
	if errors.As(err, &denied) {
		return invalid.Unauthorizedf("User %s does not have sufficient privileges to perform the requested operation",
			e.caller.Principal)
	}
	return err
}

// permitted reports whether the caller has a permission. Unlike permit, it does not reject the statement, because
// LIST shows less without the permission. An error means that the permissions could not be determined.
func (e *execution) permitted(p auth.Permission, r auth.Resource) (bool, error) {
	err := e.caller.Authorize(auth.Requirement{Permission: p, Resource: r})
	var denied *auth.Denied
	if errors.As(err, &denied) {
		return false, nil
	}
	return err == nil, err
}

// loggedIn refuses anonymous callers. Without CassandraAuthorizer they pass
// the authorization before it.
func (e *execution) loggedIn() error {
	if e.caller.Principal.Name == "" {
		return invalid.Unauthorizedf("You have to be logged in and not anonymous to perform this request")
	}
	return nil
}

// propose executes a change, and returns when it is in force on every live node. It does not propose a change without
// effect on this node's directory, which would only cost a round of the log. Errors are *auth.Invalid and errors of
// the Changer.
func (e *execution) propose(change auth.Change) error {
	// Apply the change locally to find out whether it is valid and has an effect. The log applies it again, possibly
	// to a newer directory.
	next, err := auth.Apply(e.directory, change)
	if err != nil {
		return err
	}
	if next == e.directory {
		return nil
	}
	return e.o.Changer.ProposeRoles(e.ctx, change)
}

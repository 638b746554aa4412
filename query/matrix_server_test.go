package query

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cqld/auth"
	"cqld/cql"
	"cqld/internal/matrix"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/permissions"
	"cqld/query/roles"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// matrixServer is a Processor with a directory of roles and a CassandraAuthorizer, as a matrix.Target.
type matrixServer struct {
	*oneNode
	p         *Processor
	directory *auth.Directory
	prepared  map[string]*PreparedInfo
}

const matrixAdmin = "cassandra"

// newMatrixServer returns a server with the users and the schema of the matrix.
func newMatrixServer(t *testing.T, m *matrix.Matrix) *matrixServer {
	t.Helper()
	s := &matrixServer{oneNode: newOneNode(), directory: auth.NewDirectory(), prepared: map[string]*PreparedInfo{}}
	superuser := true
	err := s.ProposeRoles(context.Background(), &auth.CreateRole{Name: matrixAdmin,
		Settings: auth.RoleSettings{Superuser: &superuser}})
	if err != nil {
		t.Fatal(err)
	}
	clock := &testClock{now: time.Unix(1700000000, 0)}
	store := &modelStore{}
	s.p = New(Options{View: s, Changer: s, Virtual: matrixVirtual{}, Clock: clock, Rand: rand.NewPCG(1, 2),
		ClusterName: "Test Cluster", DynamicDataMasking: true,
		DropCompactStorage: true, Stored: func(cmd *row.ReadCommand) ([]byte,
			error) {
			return store.table(cmd.Table).Read(cmd), nil
		},
		PagingKey:   func() []byte { return []byte("key") },
		IsSuperuser: func(role string) bool { return s.roles().IsSuperuser(role) },
		Executor: request.New(request.Options{Coordinator: store, Searcher: store, Batches: testBatches{store},
			Counters: testCounters{store}, Proposer: store, Clock: clock,
			Authorizer: auth.CassandraAuthorizer{Directory: s.roles}}),
		Roles: roles.New(roles.Options{Directory: s.roles, Schema: s.Schema, Topology: s.Topology, Changer: s,
			Hash:   func(_ context.Context, password string) (string, error) { return "hash of " + password, nil },
			Config: roles.Config{Authentication: true, Authorization: true, Network: true, CIDR: true}})})
	if err := m.Reset(s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *matrixServer) roles() *auth.Directory { return s.directory }

// ProposeRoles implements roles.Changer.
func (s *matrixServer) ProposeRoles(_ context.Context, change auth.Change) error {
	next, err := auth.Apply(s.directory, change)
	if err == nil {
		s.directory = next
	}
	return err
}

// ProposeSchemaAs implements roles.Changer: it changes the grants in the way of package cluster.
func (s *matrixServer) ProposeSchemaAs(ctx context.Context, change schema.Change, creator string) error {
	old := s.Schema()
	if err := s.ProposeSchema(ctx, change); err != nil {
		return err
	}
	var created, dropped []auth.Resource
	for _, e := range schema.Diff(old, s.Schema()) {
		var resources []auth.Resource
		switch e.Target {
		case schema.TargetKeyspace:
			resources = []auth.Resource{auth.Keyspace(e.Keyspace), auth.KeyspaceFunctions(e.Keyspace)}
		case schema.TargetFunction, schema.TargetAggregate:
			resources = []auth.Resource{auth.Function(e.Keyspace, e.Signature)}
		case schema.TargetTable:
			resources = []auth.Resource{auth.Table(e.Keyspace, e.Name)}
		}
		switch e.Change {
		case schema.Created:
			if t := s.Schema().Table(e.Keyspace, e.Name); e.Target != schema.TargetTable || t == nil || t.View == nil {
				created = append(created, resources...)
			}
		case schema.Dropped:
			dropped = append(dropped, resources...)
		}
	}
	if err := s.ProposeRoles(ctx, &auth.ResourcesDropped{Resources: dropped}); err != nil || creator == "" {
		return err
	}
	return s.ProposeRoles(ctx, &auth.ResourcesCreated{Creator: creator, Resources: created})
}

// Admin implements matrix.Target. Objects that are not supported yet are missing, but not the permissions on them:
// statements that name them are played, too.
func (s *matrixServer) Admin(text string) error {
	answer, err := s.Query(matrixAdmin, text)
	switch {
	case err != nil || strings.HasPrefix(answer, "OK"):
		return err
	case strings.HasSuffix(answer, " is not supported yet"):
		return nil
	case strings.HasPrefix(answer, "INVALID: Resource ") && strings.HasSuffix(answer, " doesn't exist"):
		return s.grantMissing(text)
	}
	return errors.New(answer)
}

// grantMissing executes GRANT or REVOKE on a resource that does not exist.
func (s *matrixServer) grantMissing(text string) error {
	stmt, err := cql.Parse(text)
	if err != nil {
		return err
	}
	var change auth.Change
	switch stmt := stmt.(type) {
	case *cql.GrantPermissions:
		r, set, err := permissions.Granted("", stmt.Permissions, &stmt.Resource)
		if err != nil {
			return err
		}
		change = &auth.GrantPermissions{Role: stmt.Grantee, Resource: r, Permissions: set}
	case *cql.RevokePermissions:
		r, set, err := permissions.Granted("", stmt.Permissions, &stmt.Resource)
		if err != nil {
			return err
		}
		change = &auth.RevokePermissions{Role: stmt.Grantee, Resource: r, Permissions: set}
	}
	return s.ProposeRoles(context.Background(), change)
}

// Query implements matrix.Target.
func (s *matrixServer) Query(user, text string) (string, error) {
	return answerOf(s.p.Query(matrixRequest(user), &Session{Version: 5}, text, &Params{}))
}

// Prepare implements matrix.Target.
func (s *matrixServer) Prepare(user, name, text string) (string, error) {
	r, err := s.p.Prepare(matrixRequest(user), &Session{Version: 5}, text, "")
	if err == nil {
		s.prepared[name] = r.Prepared
	}
	return answerOf(r, err)
}

// Execute implements matrix.Target.
func (s *matrixServer) Execute(user string, names ...string) (string, error) {
	batch := &BatchParams{}
	for _, name := range names {
		if s.prepared[name] == nil {
			return "", fmt.Errorf("%s is not prepared", name)
		}
		batch.Entries = append(batch.Entries, BatchEntry{ID: s.prepared[name].ID})
	}
	if len(names) == 1 {
		return answerOf(s.p.Execute(matrixRequest(user), &Session{Version: 5}, batch.Entries[0].ID, &Params{}))
	}
	return answerOf(s.p.Batch(matrixRequest(user), &Session{Version: 5}, batch))
}

func matrixRequest(user string) *request.Request {
	r := at(ring.One)
	r.Principal = auth.Principal{Name: user}
	return r
}

// answerOf renders a result or an error as matrix.Target does. Errors that are not the client's are returned.
func answerOf(r *Result, err error) (string, error) {
	var syntax *cql.SyntaxError
	var refused *invalid.Error
	var config *invalid.Config
	var exists *invalid.AlreadyExists
	var unauthorized *invalid.Unauthorized
	var denied *auth.Denied
	switch {
	case err == nil:
		return "OK" + rowsOf(r), nil
	case errors.As(err, &syntax):
		return "SYNTAX_ERROR: " + syntax.Error(), nil
	case errors.As(err, &refused):
		return "INVALID: " + refused.Msg, nil
	case errors.As(err, &config):
		return "CONFIG_ERROR: " + config.Msg, nil
	case errors.As(err, &unauthorized):
		return "UNAUTHORIZED: " + unauthorized.Msg, nil
	case errors.As(err, &denied):
		return "UNAUTHORIZED: " + denied.Error(), nil
	case errors.As(err, &exists):
		return fmt.Sprintf("ALREADY_EXISTS: %v [keyspace=%s table=%s]", exists, exists.Keyspace, exists.Table), nil
	}
	return "", err
}

// rowsOf renders rows as matrix.Target does, for the types that the shown rows have.
func rowsOf(r *Result) string {
	var out strings.Builder
	c := wire.NewCursor(r.Rows)
	for range r.RowCount {
		values := make([]string, len(r.Metadata.Columns))
		for i, column := range r.Metadata.Columns {
			values[i] = valueOf(column.Type.String(), c.Bytes())
		}
		out.WriteString(" (" + strings.Join(values, ", ") + ")")
	}
	return out.String()
}

func valueOf(kind string, b []byte) string {
	switch {
	case b == nil:
		return "null"
	case kind == "text":
		return "'" + string(b) + "'"
	case kind == "boolean":
		return fmt.Sprint(b[0] != 0)
	case kind == "int":
		return fmt.Sprint(int32(binary.BigEndian.Uint32(b)))
	case strings.Contains(kind, "map<") && string(b) == "\x00\x00\x00\x00":
		return "{}"
	}
	return fmt.Sprintf("%s 0x%x", kind, b)
}

// matrixVirtual serves the tables that no replica stores, without rows.
type matrixVirtual struct{}

// Serves implements VirtualSource.
func (matrixVirtual) Serves(t *schema.Table) bool {
	return t.Virtual || schema.IsLocalSystem(t.Keyspace) || t.Keyspace == "system_auth"
}

// Partitions implements VirtualSource.
func (matrixVirtual) Partitions(*schema.Table, *row.ReadCommand, func(*row.Partition) bool) (bool, error) {
	return false, nil
}

package roles_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cqld/auth"
	"cqld/cql"
	"cqld/internal/testclock"
	"cqld/internal/wire"
	"cqld/query"
	"cqld/query/invalid"
	"cqld/query/roles"
	"cqld/query/system"
	"cqld/request"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

var rewrite = flag.Bool("rewrite", false, "rewrite where cqld differs in the transcripts")

// metadata is a metadata log of one node.
type metadata struct {
	schema *schema.Schema
	roles  *auth.Directory
	ring   *ring.Topology
	// before, unless nil, is executed once, before the next change of roles is applied: a concurrent statement.
	before func()
}

func newMetadata() *metadata {
	m := &metadata{schema: schema.Initial(), roles: auth.NewDirectory(),
		ring: ring.NewTopology(1, []*ring.Node{{ID: 1, Datacenter: "datacenter1", Rack: "rack1",
			State: ring.Normal, Tokens: []ring.Token{0}}})}
	if err := m.ProposeRoles(context.Background(), &auth.FirstSuperuser{Name: "cassandra", Hash: "x"}); err != nil {
		panic(err)
	}
	return m
}

func (m *metadata) Self() ring.NodeID        { return 1 }
func (m *metadata) Schema() *schema.Schema   { return m.schema }
func (m *metadata) Topology() *ring.Topology { return m.ring }
func (m *metadata) Alive(ring.NodeID) bool   { return true }

func (m *metadata) SchemaVersion(ring.NodeID) schema.UUID { return m.schema.Version() }

func (m *metadata) AwaitSchema(context.Context) error { return nil }

func (m *metadata) ProposeRoles(_ context.Context, change auth.Change) error {
	if before := m.before; before != nil {
		m.before = nil
		before()
	}
	next, err := auth.Apply(m.roles, change)
	if err == nil {
		m.roles = next
	}
	return err
}

func (m *metadata) ProposeSchema(ctx context.Context, change schema.Change) error {
	return m.ProposeSchemaAs(ctx, change, "")
}

func (m *metadata) ProposeSchemaAs(ctx context.Context, change schema.Change, creator string) error {
	next, err := schema.Apply(m.schema, change)
	if err != nil {
		return err
	}
	created, dropped := auth.ResourcesCreated{Creator: creator}, auth.ResourcesDropped{}
	for _, e := range schema.Diff(m.schema, next) {
		list := []auth.Resource{auth.Table(e.Keyspace, e.Name)}
		if e.Target == schema.TargetKeyspace {
			list = []auth.Resource{auth.Keyspace(e.Keyspace), auth.KeyspaceFunctions(e.Keyspace)}
		}
		switch {
		case e.Target == schema.TargetType:
		case e.Change == schema.Created:
			created.Resources = append(created.Resources, list...)
		case e.Change == schema.Dropped:
			dropped.Resources = append(dropped.Resources, list...)
		}
	}
	m.schema = next
	return errors.Join(m.ProposeRoles(ctx, &dropped), m.ProposeRoles(ctx, &created))
}

// session executes the statements of a transcript.
type session struct {
	m         *metadata
	processor *query.Processor
	state     query.Session
	user      string
}

// newSession returns a session with the classes of access control of a transcript, such as "authentication
// authorization".
func newSession(classes string) *session {
	on := func(name string) bool { return slices.Contains(strings.Fields(classes), name) }
	m := newMetadata()
	clock := new(testclock.Clock)
	var authorizer auth.Authorizer = auth.AllowAll{}
	if on("authorization") {
		authorizer = auth.CassandraAuthorizer{Directory: func() *auth.Directory { return m.roles }}
	}
	generated := 0
	statements := roles.New(roles.Options{Directory: func() *auth.Directory { return m.roles }, Schema: m.Schema,
		Topology: m.Topology, Changer: m,
		Hash:        func(_ context.Context, password string) (string, error) { return "hash of " + password, nil },
		NewKey:      func() string { generated++; return tablesKey(generated) },
		NewPassword: func() string { return "a generated password" },
		Config: roles.Config{Authentication: on("authentication"), Authorization: on("authorization"),
			Network: on("network"), CIDR: on("cidr")}})
	source := system.New(system.Options{View: m, ClusterName: "Test Cluster",
		Roles: func() *auth.Directory { return m.roles }})
	return &session{m: m, state: query.Session{Version: 4}, processor: query.New(query.Options{
		Executor: request.New(request.Options{Clock: clock, Authorizer: authorizer}), View: m, Changer: m,
		Roles: statements, Virtual: source,
		Clock: clock, Rand: rand.NewPCG(1, 2)})}
}

// execute returns the answer to a statement in the form of the transcripts.
func (s *session) execute(text string) string {
	r := &request.Request{Context: context.Background(), Principal: auth.Principal{Name: s.user}, Consistency: ring.One}
	result, err := s.processor.Query(r, &s.state, text, &query.Params{})
	if err != nil {
		return fmt.Sprintf("error %04x: %s", code(err), err)
	}
	if result.Kind == query.KindSetKeyspace {
		s.state.Keyspace = result.Keyspace
	}
	out := show(result)
	for _, w := range r.Warnings {
		out += "\n  warning: " + w
	}
	return out
}

// code returns the protocol's code of an error.
func code(err error) int {
	var (
		syntax       *cql.SyntaxError
		refused      *invalid.Error
		unauthorized *invalid.Unauthorized
		denied       *auth.Denied
	)
	switch {
	case errors.As(err, &syntax):
		return 0x2000
	case errors.As(err, &unauthorized), errors.As(err, &denied):
		return 0x2100
	case errors.As(err, &refused):
		return 0x2200
	}
	return 0
}

func show(r *query.Result) string {
	switch r.Kind {
	case query.KindSetKeyspace:
		return "set_keyspace " + r.Keyspace
	case query.KindSchemaChange:
		return "schema_change " + r.SchemaChange.Change + " " + r.SchemaChange.Target
	case query.KindRows:
	default:
		return "void"
	}
	var columns []string
	for _, c := range r.Metadata.Columns {
		columns = append(columns, fmt.Sprintf("%s.%s.%s %s", c.Keyspace, c.Table, c.Name, wireType(c.Type)))
	}
	out := "rows " + strings.Join(columns, ", ")
	cur := wire.NewCursor(r.Rows)
	for range r.RowCount {
		var row []string
		for _, c := range r.Metadata.Columns {
			row = append(row, value(c.Type, cur.Bytes()))
		}
		out += "\n  " + strings.Join(row, " | ")
	}
	return out
}

// wireType returns a type as the protocol shows it: without frozen.
func wireType(t *types.Type) string {
	return strings.NewReplacer("frozen<", "", ", ", ",").Replace(strings.TrimSuffix(t.String(),
		strings.Repeat(">", strings.Count(t.String(), "frozen<"))))
}

func value(t *types.Type, b []byte) string {
	switch {
	case b == nil:
		return "null"
	case t.Kind() == types.Text:
		return "'" + string(b) + "'"
	case t.Kind() == types.Boolean && b[0] != 0:
		return "True"
	case t.Kind() == types.Boolean:
		return "False"
	case t.Kind() == types.Set, t.Kind() == types.Map:
		cur := wire.NewCursor(b)
		n := cur.Int32()
		if t.Kind() == types.Map {
			n *= 2
		}
		var elements []string
		for range n {
			elements = append(elements, value(t.Elems()[0], cur.Bytes()))
		}
		return "{" + strings.Join(elements, ", ") + "}"
	}
	return fmt.Sprintf("0x%x", b)
}

// TestStatementsAnswerAsInCassandra replays transcripts of Cassandra 5. Each statement is followed by Cassandra's
// answer, and, if cqld differs on purpose, by cqld's answer after a line "cqld:", which -rewrite replaces.
// docs/differences.md gives the reasons.
func TestStatementsAnswerAsInCassandra(t *testing.T) {
	files, err := filepath.Glob("testdata/cassandra/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) { replay(t, name) })
	}
}

func replay(t *testing.T, name string) {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	heading, rest, _ := strings.Cut(string(b), "\n")
	s := newSession(strings.TrimPrefix(heading, "# "))
	rewritten := heading + "\n"
	for block := range strings.SplitAfterSeq(rest, "\n\n") {
		if block = strings.Trim(block, "\n"); block == "" {
			continue
		}
		if user, ok := strings.CutPrefix(block, "@"); ok {
			if s.user = strings.TrimSpace(user); s.user == "anonymous" {
				s.user = ""
			}
			rewritten += strings.TrimSpace(block) + "\n\n"
			continue
		}
		statement, answers, _ := strings.Cut(block, "\n")
		cassandra, want, differs := strings.Cut(answers, "\ncqld:\n")
		if !differs {
			want = cassandra
		}
		got := s.execute(strings.TrimPrefix(statement, "> "))
		if got != want && !*rewrite {
			t.Errorf("%s: as %q: %s\ngot\n%s\nwant\n%s", name, s.user, statement, got, want)
		}
		rewritten += statement + "\n" + cassandra + "\n"
		if got != cassandra {
			rewritten += "cqld:\n" + got + "\n"
		}
		rewritten += "\n"
	}
	if *rewrite {
		if err := os.WriteFile(name, []byte(strings.TrimSuffix(rewritten, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

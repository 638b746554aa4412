package query

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/audit"
	"cqld/auth"
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/roles"
	"cqld/request"
)

// secretForms are statements with a secret, %s. Package cql generates texts that are not statements.
func secretForms() []string {
	return []string{
		"CREATE ROLE r%d WITH PASSWORD = %s", "CREATE USER u%d WITH PASSWORD %s NOSUPERUSER",
		"ALTER ROLE r0 WITH LOGIN = true AND PASSWORD = %s -- %d",
		"CREATE ROLE h%d WITH HASHED PASSWORD = %s", "CREATE ROLE o%d WITH OPTIONS = {'key1': %s}",
		"ALTER ROLE nix%d WITH PASSWORD = %s",
		"/* %d WITH PASSWORD = %s */ CREATE ROLE c%[1]d", "CREATE ROLE x%d WITH PASSWORD = %s foo",
		"CREATE ROLE x%d WITH PASSWORD = %s AND PASSWORD = 'y'",
		"INSERT INTO t (k, password) VALUES (%d, %s)", "UPDATE t SET password = %[2]s WHERE k = %[1]d",
		"SELECT * FROM t WHERE k = %d AND password = %s ALLOW FILTERING",
		"SELECT * FROM t WHERE password = %[2]s AND nix = %[1]d",
		"INSERT INTO t JSON '{\"k\": %d, \"password\": \"Zq9vSecret\"}'",
		"UPDATE t SET m['password'] = %[2]s WHERE k = %[1]d",
		"UPDATE t SET number_of_passwords = %[2]s WHERE k = %[1]d",
		"BEGIN BATCH INSERT INTO t (k, password) VALUES (%d, %s) APPLY BATCH",
		"BEGIN BATCH UPDATE t SET password = %[2]s WHERE k = %[1]d; " +
			"DELETE m[(vector<int, 3000000000>)[1]] FROM t WHERE k = 1 APPLY BATCH",
		"EXPLAIN SELECT * FROM t WHERE k = %d AND password = %s ALLOW FILTERING",
	}
}

// TestNoSinkShowsASecret executes and prepares statements with secrets, traced and recorded, and then reads everything
// that shows statements: the audit log with its errors, both tables of traces, prepared statements, and the messages of
// syntax errors.
func TestNoSinkShowsASecret(t *testing.T) {
	n := &matrixServer{oneNode: newOneNode(), directory: auth.NewDirectory()}
	yes := true
	if err := n.ProposeRoles(context.Background(), &auth.CreateRole{Name: "alice",
		Settings: auth.RoleSettings{Superuser: &yes, Login: &yes}}); err != nil {
		t.Fatal(err)
	}
	store := &modelStore{}
	clock := &testClock{now: time.Unix(1700000000, 0)}
	settings := audit.DefaultSettings()
	settings.Dir = t.TempDir()
	log := audit.New(audit.Options{}, settings)
	if err := log.Enable(settings); err != nil {
		t.Fatal(err)
	}
	p := New(Options{View: n, Changer: n, Virtual: matrixVirtual{}, Clock: clock, Rand: rand.NewPCG(1, 2), Audit: log,
		Executor: request.New(request.Options{Coordinator: store, Proposer: store, Batches: testBatches{store},
			Counters: testCounters{store}, Clock: clock}),
		Roles: roles.New(roles.Options{Directory: n.roles, Schema: n.Schema, Topology: n.Topology, Changer: n,
			Hash: func(_ context.Context, password string) (string, error) {
				return "$2a$04$" + strings.Repeat("x", 53), nil
			},
			Config: roles.Config{Authentication: true, Authorization: true, Options: []string{"key1"}}})})
	s := &Session{Version: 5, Keyspace: "ks"}
	for _, text := range []string{"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', " +
		"'replication_factor': 1}",
		"CREATE TABLE t (k int PRIMARY KEY, password text, m map<text, text>, number_of_passwords int)",
		"CREATE ROLE r0"} {
		if _, err := p.Query(alice(), s, text, &Params{}); err != nil {
			t.Fatal(err)
		}
	}
	show := func(where, what string) {
		t.Helper()
		if strings.Contains(what, "Zq9v") {
			t.Errorf("%s shows %s", where, what)
		}
	}
	succeeded := 0
	for i, form := range secretForms() {
		for j, literal := range []string{"'Zq9vSecret'", "$$Zq9v's secret$$"} {
			text := fmt.Sprintf(form, i*10+j, literal)
			if strings.HasPrefix(form, "ALTER ROLE r0") {
				text = fmt.Sprintf(strings.ReplaceAll(form, "%d", ""), literal)
			}
			text, _, _ = strings.Cut(text, "%!(EXTRA")
			if _, err := p.Query(tracedAlice(), s, text, &Params{}); err == nil {
				succeeded++
			} else if syntax := (*cql.SyntaxError)(nil); errors.As(err, &syntax) {
				show("the message of a syntax error", syntax.Msg)
			}
			_, _ = p.Prepare(tracedAlice(), s, text, "")
		}
	}
	if succeeded < len(secretForms()) {
		t.Errorf("only %d statements succeeded", succeeded)
	}
	prepared, err := p.Prepare(alice(), s, "INSERT INTO t (k, password) VALUES (?, ?)", "")
	if err != nil {
		t.Fatal(err)
	}
	values := []wire.Value{wire.BytesValue([]byte{0, 0, 0, 1}), wire.BytesValue([]byte("Zq9vSecret"))}
	if _, err := p.Execute(tracedAlice(), s, prepared.Prepared.ID, &Params{Values: values}); err != nil {
		t.Fatal(err)
	}
	if got := collectPages(t, p, s, "SELECT password FROM t WHERE k = 1", 0); got != "'Zq9vSecret'\n" {
		t.Errorf("a bound value is stored as %s", got)
	}
	for _, text := range []string{"SELECT * FROM system_traces.sessions", "SELECT * FROM system_traces.events"} {
		got := collectPages(t, p, s, text, 0)
		if !strings.Contains(got, "*******") {
			t.Errorf("%s returns no redacted statement", text)
		}
		show(text, got)
	}
	for _, one := range p.PreparedStatements() {
		show("system.prepared_statements", one.Text)
	}
	log.Close()
	recorded, err := os.ReadFile(filepath.Join(settings.Dir, "audit.log"))
	if err != nil || len(recorded) == 0 {
		t.Fatal(err)
	}
	show("the audit log", string(recorded))
}

package query

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/auth"
	"cqld/coordinator"
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/paxos"
	"cqld/request"
	"cqld/ring"
	"cqld/schema"
)

// authorized returns statements of every kind with the permissions that each requires, in this order.
func authorized() map[string][]string {
	const modify, read = "MODIFY on <table ks.t>", "SELECT on <table ks.t>"
	return map[string][]string{
		// Rows.
		"SELECT * FROM t":                                  {read},
		"SELECT v FROM ks.t WHERE k = 1":                   {read},
		"SELECT count(*) FROM t":                           {read},
		"SELECT * FROM system.local":                       {"SELECT on <table system.local>"},
		"EXPLAIN SELECT * FROM t":                          {read},
		"EXPLAIN ANALYZE SELECT * FROM other.u":            {"SELECT on <table other.u>"},
		"INSERT INTO t (k, v) VALUES (1, 1)":               {modify},
		`INSERT INTO t JSON '{"k": 1, "v": 1}'`:            {modify},
		`INSERT INTO t JSON '{"k": 1}' IF NOT EXISTS`:      {modify, read},
		"UPDATE t SET v = 1 WHERE k = 1":                   {modify},
		"UPDATE counts SET n = n + 1 WHERE k = 1":          {"MODIFY on <table ks.counts>"},
		"UPDATE t SET l[0] = 1 WHERE k = 1":                {modify},
		"DELETE FROM t WHERE k = 1":                        {modify},
		"DELETE v FROM t WHERE k = 1":                      {modify},
		"INSERT INTO t (k, v) VALUES (1, 1) IF NOT EXISTS": {modify, read},
		"UPDATE t SET v = 1 WHERE k = 1 IF EXISTS":         {modify, read},
		"UPDATE t SET v = 1 WHERE k = 1 IF v = 2":          {modify, read},
		"DELETE FROM t WHERE k = 1 IF EXISTS":              {modify, read},
		"DELETE FROM t WHERE k = 1 IF v = 1":               {modify, read},
		"TRUNCATE t":                                       {modify},
		"BEGIN BATCH INSERT INTO t (k, v) VALUES (1, 1); DELETE FROM other.u WHERE k = 1; UPDATE t SET v = 2 WHERE " +
			"k = 3 APPLY BATCH": {
			modify, "MODIFY on <table other.u>"},
		"BEGIN BATCH INSERT INTO t (k, v) VALUES (1, 1) IF NOT EXISTS; UPDATE t SET v = 2 WHERE k = 1 APPLY " +
			"BATCH": {modify, read},

		// Statements that need no permission, as in Cassandra.
		"USE ks":              nil,
		"DESCRIBE KEYSPACES":  nil,
		"DESCRIBE TABLE ks.t": nil,

		// Keyspaces, tables and types.
		"CREATE KEYSPACE x WITH replication = {'class': 'SimpleStrategy', 'replication_factor': " +
			"1}": {"CREATE on <all keyspaces>"},
		"ALTER KEYSPACE ks WITH durable_writes = true": {"ALTER on " +
			"<keyspace ks>"},
		"DROP KEYSPACE other":                      {"DROP on <keyspace other>"},
		"CREATE TABLE x (k int PRIMARY KEY)":       {"CREATE on <all tables in ks>"},
		"CREATE TABLE other.x (k int PRIMARY KEY)": {"CREATE on <all tables in other>"},
		"CREATE TABLE x LIKE other.u":              {"SELECT on <table other.u>", "CREATE on <all tables in ks>"},
		"COMMENT ON KEYSPACE other IS 'x'":         {"ALTER on <keyspace other>"},
		"COMMENT ON TABLE t IS 'x'":                {"ALTER on <table ks.t>"},
		"COMMENT ON COLUMN t.v IS 'x'":             {"ALTER on <table ks.t>"},
		"COMMENT ON TYPE ty IS 'x'":                {"ALTER on <all tables in ks>"},
		"COMMENT ON FIELD ty.a IS NULL":            {"ALTER on <all tables in ks>"},
		"ALTER TABLE t ADD x int":                  {"ALTER on <table ks.t>"},
		"ALTER TABLE t DROP v":                     {"ALTER on <table ks.t>"},
		"ALTER TABLE t RENAME k TO x":              {"ALTER on <table ks.t>"},
		"ALTER TABLE t WITH comment = 'x'":         {"ALTER on <table ks.t>"},
		"DROP TABLE t":                             {"DROP on <table ks.t>"},
		"UNDROP TABLE t AS u":                      {"CREATE on <all tables in ks>"},
		"PURGE TABLE IF EXISTS other.t":            {"DROP on <all tables in other>"},
		"UNDROP KEYSPACE ks AS other":              {"CREATE on <all keyspaces>"},
		"PURGE KEYSPACE IF EXISTS other":           {"DROP on <all keyspaces>"},
		"DROP TABLE IF EXISTS nothing":             {"DROP on <table ks.nothing>"},
		"CREATE TYPE x (a int)":                    {"CREATE on <all tables in ks>"},
		"ALTER TYPE ty ADD b int":                  {"ALTER on <all tables in ks>"},
		"DROP TYPE ty":                             {"DROP on <all tables in ks>"},

		// Statements that can be parsed but are not supported yet.
		"CREATE INDEX i ON t (v)": {"ALTER on <table ks.t>"},
		"DROP INDEX indexed":      {"ALTER on <table ks.t>"},
		"CREATE MATERIALIZED VIEW x AS SELECT * FROM other.u WHERE k IS NOT NULL PRIMARY KEY " +
			"(k)": {"ALTER on <table other.u>"},
		"ALTER MATERIALIZED VIEW other.viewed WITH comment = " +
			"'x'": {"ALTER on <table other.vb>"},
		"DROP MATERIALIZED VIEW other.viewed": {"ALTER on <table other.vb>"},
		"CREATE TRIGGER x ON t USING 'c'":     {}, // superusers only
		"DROP TRIGGER x ON t":                 {}, // superusers only
		"CREATE FUNCTION f (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return " +
			"a;'": {"CREATE on <all functions in ks>"},
		"CREATE OR REPLACE FUNCTION f (a int, b text) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return " +
			"a;'": {"ALTER on <function ks.f(int, text)>"},
		"DROP FUNCTION f (int, text)": {"DROP on <function ks.f(int, text)>"},
		"DROP FUNCTION overloaded":    {"DROP on <all functions in ks>"},
		"DROP FUNCTION f":             {"DROP on <function ks.f(int, text)>"},
		"SELECT f(v, 'x') FROM t":     {read, "EXECUTE on <function ks.f(int, text)>"},
		"SELECT a(v) FROM t": {read, "EXECUTE on <function ks.a(int)>",
			"EXECUTE on <function ks.sf(int, int)>"},
		"CREATE AGGREGATE a (int) SFUNC f STYPE text FINALFUNC g": {
			"CREATE on <all functions in ks>", "EXECUTE on <function ks.f(text, int)>",
			"EXECUTE on <function ks.g(text)>"},
		"CREATE OR REPLACE AGGREGATE a (int) SFUNC sf STYPE int": {
			"ALTER on <function ks.a(int)>", "EXECUTE on <function ks.sf(int, int)>"},
		"DROP AGGREGATE a (int)": {"DROP on <function ks.a(int)>"},
		"DROP AGGREGATE a":       {"DROP on <function ks.a(int)>"},

		// What statements about roles need depends on the roles: package query/roles tests it.
		"CREATE ROLE r":                      nil,
		"CREATE USER r":                      nil,
		"ALTER ROLE r WITH LOGIN = true":     nil,
		"DROP ROLE r":                        nil,
		"LIST ROLES":                         nil,
		"LIST USERS":                         nil,
		"LIST ALL PERMISSIONS":               nil,
		"GRANT r TO x":                       nil,
		"REVOKE r FROM x":                    nil,
		"GRANT SELECT ON t TO r":             nil,
		"REVOKE ALL ON ALL KEYSPACES FROM r": nil,
		"ADD IDENTITY 'i' TO ROLE 'r'":       nil,
		"DROP IDENTITY 'i'":                  nil,
	}
}

// statementKinds returns the types of package cql that implement Statement, from its source.
func statementKinds(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../cql/*.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Name.Name != "statement" || fn.Type.Params.NumFields() > 0 {
				continue
			}
			if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok {
				kinds[star.X.(*ast.Ident).Name] = true
			}
		}
	}
	if len(kinds) < 40 {
		t.Fatalf("only %d kinds of statements are found", len(kinds))
	}
	return kinds
}

// guarded is an Authorizer that records the requirements, and denies one.
type guarded struct {
	asked  []string
	denied string
}

func (g *guarded) Authorize(_ context.Context, p auth.Principal, need auth.Requirement) error {
	if g.asked = append(g.asked, need.String()); need.String() == g.denied {
		return &auth.Denied{Principal: p, Requirement: need}
	}
	return nil
}

// watched counts the calls of the coordinator and the schema.
type watched struct {
	modelStore
	*oneNode
	effects int
}

func (w *watched) Write(req *coordinator.WriteRequest, done func(error)) {
	w.effects++
	w.modelStore.Write(req, done)
}

func (w *watched) Count(req *coordinator.WriteRequest, done func(error)) {
	w.effects++
	w.modelStore.Count(req, done)
}

func (w *watched) Batch(req *coordinator.WriteRequest, done func(error)) {
	w.effects++
	w.modelStore.Batch(req, done)
}

func (w *watched) CAS(req *paxos.CASRequest, done func(bool, []byte, error)) {
	w.effects++
	w.modelStore.CAS(req, done)
}

func (w *watched) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	w.effects++
	w.modelStore.Read(req, done)
}

func (w *watched) Truncate(t *schema.Table, timeout time.Duration, done func(error)) {
	w.effects++
	w.modelStore.Truncate(t, timeout, done)
}

func (w *watched) ProposeSchema(ctx context.Context, change schema.Change) error {
	w.effects++
	return w.oneNode.ProposeSchema(ctx, change)
}

// newGuarded returns a Processor with the tables of authorized, and its recorders.
func newGuarded(t *testing.T) (*Processor, *Session, *guarded, *watched) {
	t.Helper()
	w, g := &watched{oneNode: newOneNode()}, &guarded{}
	clock := &testClock{now: time.Unix(1700000000, 0)}
	p := New(Options{View: w, Changer: w, Clock: clock, Rand: rand.NewPCG(1, 2),
		Executor: request.New(request.Options{Coordinator: w, Batches: testBatches{w}, Counters: testCounters{w},
			Proposer: w, Clock: clock, Authorizer: g})})
	s := &Session{Version: 5}
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int, l list<int>)", "CREATE TABLE other.u (k int PRIMARY KEY)",
		"CREATE TABLE ks.counts (k int PRIMARY KEY, n counter)", "CREATE TYPE ks.ty (a int)",
		"CREATE INDEX indexed ON ks.t (v)", "CREATE TABLE other.vb (k int PRIMARY KEY)",
		"CREATE MATERIALIZED VIEW other.viewed AS SELECT * FROM other.vb WHERE k IS NOT NULL PRIMARY KEY (k)",
		"CREATE FUNCTION ks.f (a int, b text) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return a;'",
		"CREATE FUNCTION ks.sf (a int, b int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return a;'",
		"CREATE FUNCTION ks.overloaded (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS 'return a;'",
		"CREATE FUNCTION ks.overloaded (a text) CALLED ON NULL INPUT RETURNS text LANGUAGE lua AS 'return a'",
		"CREATE AGGREGATE ks.a (int) SFUNC sf STYPE int INITCOND 0",
	} {
		mustQuery(t, p, s, text)
	}
	s.Keyspace = "ks"
	g.asked, w.effects = nil, 0
	return p, s, g, w
}

// TestEveryKindOfStatementAsksForItsPermissions executes statements of every kind of package cql: once with an
// Authorizer that allows everything, which must receive exactly the permissions of the list; and once for each of these
// with an Authorizer that denies it, when no call may reach the coordinator or the schema. It distinguishes statements
// that are sent as text, prepared ones and those of a BATCH message.
func TestEveryKindOfStatementAsksForItsPermissions(t *testing.T) {
	missing := statementKinds(t)
	for text, want := range authorized() {
		stmt, err := cql.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		delete(missing, reflect.TypeOf(stmt).Elem().Name())
		for name, execute := range waysToExecute(stmt) {
			p, s, g, _ := newGuarded(t)
			if err := execute(p, s, text); isDenied(err) || !slices.Equal(g.asked, want) {
				t.Errorf("%s (%s) requires\n%q, want\n%q: %v", text, name, g.asked, want, err)
			}
			for i, denied := range want {
				p, s, g, w := newGuarded(t)
				g.denied = denied
				before := *s
				if err := execute(p, s, text); !isDenied(err) ||
					!strings.Contains(err.Error(), "has no "+strings.Replace(denied, " on ", " permission on ", 1)) {
					t.Errorf("%s (%s) without %s: %v", text, name, denied, err)
				}
				if w.effects > 0 || w.reads > 0 || !reflect.DeepEqual(*s, before) || len(g.asked) != i+1 {
					t.Errorf("%s (%s) without %s: %d effects, required %q", text, name, denied, w.effects, g.asked)
				}
			}
		}
	}
	for kind := range missing {
		t.Errorf("authorized has no statement of kind %s", kind)
	}
}

// waysToExecute returns the ways in which a statement can be sent.
func waysToExecute(stmt cql.Statement) map[string]func(p *Processor, s *Session, text string) error {
	as := auth.Principal{Name: "alice"}
	from := func() *request.Request {
		r := at(ring.One)
		r.Principal = as
		return r
	}
	ways := map[string]func(p *Processor, s *Session, text string) error{
		"text": func(p *Processor, s *Session, text string) error {
			_, err := p.Query(from(), s, text, &Params{})
			return err
		},
		"prepared": func(p *Processor, s *Session, text string) error {
			prepared, err := p.Prepare(from(), s, text, "")
			if err != nil {
				return err
			}
			_, err = p.Execute(from(), s, prepared.Prepared.ID, &Params{})
			return err
		},
	}
	switch stmt.(type) {
	case *cql.Insert, *cql.InsertJSON, *cql.Update, *cql.Delete:
		ways["batch"] = func(p *Processor, s *Session, text string) error {
			kind := cql.BatchUnlogged
			if strings.Contains(text, "counts") {
				kind = cql.BatchCounter
			}
			_, err := p.Batch(from(), s, &BatchParams{Kind: kind, Entries: []BatchEntry{{Text: text}}})
			return err
		}
	}
	return ways
}

func isDenied(err error) bool {
	var denied *auth.Denied
	return errors.As(err, &denied) && denied.Principal.Name == "alice"
}

// TestPlansNeedPermissionsOnTheirTables checks that the required permissions are those on the tables that a statement
// then reads and writes, however its names are qualified.
func TestPlansNeedPermissionsOnTheirTables(t *testing.T) {
	p, _, _, _ := newGuarded(t)
	for text := range authorized() {
		stmt, err := cql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		pl, err := p.compile(p.o.View.Schema(), "ks", text, stmt)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, table := range pl.tables {
			if !slices.ContainsFunc(pl.needs, func(q auth.Requirement) bool {
				return q.Resource == auth.Table(table.Keyspace, table.Name)
			}) {
				t.Errorf("%s: no permission is required on %s.%s", text, table.Keyspace, table.Name)
			}
		}
	}
}

// A revoked permission is effective at the next execution of a prepared statement, and of an entry of a batch; one
// denied entry prevents the execution of the others.
func TestPermissionsAreAskedForAtEachExecution(t *testing.T) {
	p, s, g, w := newGuarded(t)
	insert := prepare(t, p, s, "INSERT INTO t (k, v) VALUES (?, 1)")
	other := prepare(t, p, s, "INSERT INTO other.u (k) VALUES (?)")
	if len(g.asked) != 0 {
		t.Errorf("PREPARE requires %q", g.asked)
	}
	key := []wire.Value{wire.BytesValue([]byte{0, 0, 0, 1})}
	batch := &BatchParams{Kind: cql.BatchUnlogged, Entries: []BatchEntry{{ID: insert.ID, Values: key},
		{ID: other.ID, Values: key}}}
	for i, denied := range []string{"", "MODIFY on <table other.u>", "MODIFY on <table ks.t>", ""} {
		g.denied, w.effects = denied, 0
		_, err := p.Execute(at(ring.One), s, insert.ID, &Params{Values: key})
		if want := i == 2; (err != nil) != want || w.effects != map[bool]int{false: 1, true: 0}[want] {
			t.Errorf("%d: EXECUTE without %q: %v, %d writes", i, denied, err, w.effects)
		}
		w.effects = 0
		_, err = p.Batch(at(ring.One), s, batch)
		if want := denied != ""; (err != nil) != want || want && w.effects != 0 || !want && w.effects == 0 {
			t.Errorf("%d: BATCH without %q: %v, %d writes", i, denied, err, w.effects)
		}
	}
}

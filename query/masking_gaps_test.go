package query

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cqld/auth"
	"cqld/query/roles"
	"cqld/request"
	"cqld/view"
)

// TestMaskedVectorsAreNotRecoveredByTheirDistances: the error is that of Cassandra 5.0.9.
func TestMaskedVectorsAreNotRecoveredByTheirDistances(t *testing.T) {
	p, s := newMaskingProcessorOver(t, &modelStore{})
	s.Keyspace = "msk"
	for _, text := range []string{"CREATE TABLE v (k int PRIMARY KEY, v vector<float, 2> MASKED WITH DEFAULT, o " +
		"vector<float, 2>)",
		"CREATE CUSTOM INDEX ON v (v) USING 'StorageAttachedIndex'",
		"CREATE CUSTOM INDEX ON v (o) USING 'StorageAttachedIndex'",
		"INSERT INTO v (k, v, o) VALUES (1, [1.5, 2.5], [1, 2])"} {
		if got := runStatementAs(p, s, "cassandra", text); !strings.HasSuffix(got, "ok\n") {
			t.Fatal(text, got)
		}
	}
	for _, where := range []string{"", "EXPLAIN ", "EXPLAIN ANALYZE "} {
		text := where + "SELECT k FROM v ORDER BY v ANN OF [1, 1] LIMIT 2"
		if got := runStatementAs(p, s, "msk_low", text); got != "error 2100: User msk_low has no UNMASK nor "+
			"SELECT_MASKED permission on table msk.v, "+
			"cannot query masked columns [v]\n" {
			t.Errorf("%s: %s", text, got)
		}
		for _, role := range []string{"msk_sel", "msk_un", "cassandra"} {
			if got := runStatementAs(p, s, role, text); strings.Contains(got, "error 2100") {
				t.Errorf("%s: %s: %s", role, text, got)
			}
		}
		other := where + "SELECT k FROM v ORDER BY o ANN OF [1, 1] LIMIT 2"
		if got := runStatementAs(p, s, "msk_low", other); strings.Contains(got, "error 2100") {
			t.Errorf("%s: %s", other, got)
		}
	}
}

// TestSizesOfMaskedCollectionsAreHidden tries to learn how many elements a collection has, with and without
// permissions.
func TestSizesOfMaskedCollectionsAreHidden(t *testing.T) {
	p, s := newMaskingProcessorOver(t, &modelStore{})
	s.Keyspace = "msk"
	for _, text := range []string{"CREATE TABLE l (k int PRIMARY KEY, l list<int> MASKED WITH DEFAULT, m map<text, " +
		"int> MASKED WITH DEFAULT, s set<int> MASKED WITH DEFAULT, o list<int>)",
		"INSERT INTO l (k, l, m, s, o) VALUES (1, [1, 2, 3], {'a': 1, 'b': 2, 'c': 3}, {1, 2, 3}, [1, 2, 3])"} {
		if got := runStatementAs(p, s, "cassandra", text); got != "ok\n" {
			t.Fatal(text, got)
		}
	}
	const denied = "error 2100: User msk_low has no UNMASK nor SELECT_MASKED permission on table msk.l, cannot " +
		"query masked columns [l]\n"
	for _, text := range []string{"UPDATE l SET l[7] = 1 WHERE k = 1", "UPDATE l SET l[0] = 1 WHERE k = 1",
		"DELETE l[7] FROM l WHERE k = 1", "DELETE l[2] FROM l WHERE k = 1",
		"UPDATE l SET l[7] = 1 WHERE k = 1 IF EXISTS", "UPDATE l SET l[2] = 1 WHERE k = 1 IF o = [1]",
		"BEGIN BATCH UPDATE l SET l[7] = 1 WHERE k = 1 APPLY BATCH",
		"BEGIN BATCH UPDATE l SET o = [1, 2, 3] WHERE k = 1; DELETE l[2] FROM l WHERE k = 1 APPLY BATCH"} {
		if got := runStatementAs(p, s, "msk_low", text); got != denied {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, role := range []string{"msk_sel", "msk_un", "cassandra"} {
		if got := runStatementAs(p, s, role, "UPDATE l SET l[7] = 1 WHERE k = 1"); !strings.Contains(got,
			"list has size 3") {
			t.Errorf("%s: %s", role, got)
		}
	}
	if got := runStatementAs(p, s, "msk_low", "UPDATE l SET o[7] = 1 WHERE k = 1"); !strings.Contains(got,
		"list has size 3") {
		t.Error(got)
	}
	const selected = "SELECT writetime(l), writetime(m), writetime(s), ttl(l), ttl(m), ttl(s), l, m, s, " +
		"collection_count(l) FROM l"
	got := runStatementAs(p, s, "msk_low", selected)
	if _, row, _ := strings.Cut(got, "\n"); row != "null | null | null | null | null | null | null | null | null | "+
		"null\n" &&
		row != "null | null | null | null | null | null | [] | {} | {} | 0\n" {
		t.Error(got)
	}
	if got := runStatementAs(p, s, "msk_un", selected); strings.Count(got, "1700000000") != 9 {
		t.Error(got)
	}
}

// newGranting returns a Processor with a directory of roles, and a function that executes a statement as one of them.
func newGranting(t *testing.T) (n *matrixServer, run func(role, text string) string) {
	t.Helper()
	n = &matrixServer{oneNode: newOneNode(), directory: auth.NewDirectory()}
	yes := true
	for _, c := range []auth.Change{&auth.CreateRole{Name: "root", Settings: auth.RoleSettings{Superuser: &yes}},
		&auth.CreateRole{Name: "bob"}} {
		if err := n.ProposeRoles(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	clock := &testClock{now: time.Unix(1700000000, 0)}
	store := &viewedStore{modelStore: &modelStore{}}
	store.reader = view.New(view.Options{Coordinator: store.modelStore, View: n, Clock: clock})
	p := New(Options{View: n, Changer: n, Clock: clock, Rand: rand.NewPCG(1, 2), DynamicDataMasking: true,
		Executor: request.New(request.Options{Coordinator: store, Searcher: store, Proposer: store,
			Batches: testBatches{store}, Clock: clock,
			Authorizer: auth.CassandraAuthorizer{Directory: n.roles}}),
		Roles: roles.New(roles.Options{Directory: n.roles, Schema: n.Schema, Topology: n.Topology, Changer: n,
			Config: roles.Config{Authentication: true, Authorization: true}})})
	s := &Session{Version: 5}
	return n, func(role, text string) string { return runStatementAs(p, s, role, text) }
}

func mustRun(t *testing.T, run func(role, text string) string, role string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if got := run(role, text); !strings.HasSuffix(got, "ok\n") {
			t.Fatalf("%s: %s: %s", role, text, got)
		}
	}
}

// TestMasksFollowToViews: as in Cassandra 5.0.9, a view has the masks of its base table, also later ones, and its
// creator gets no permission on it.
func TestMasksFollowToViews(t *testing.T) {
	n, run := newGranting(t)
	mustRun(t, run, "root", "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': 1}",
		"CREATE TABLE ks.v (k int PRIMARY KEY, t text MASKED WITH mask_inner(1, 1), n int)",
		"INSERT INTO ks.v (k, t, n) VALUES (1, 'hello', 1)",
		"GRANT SELECT ON KEYSPACE ks TO bob", "GRANT CREATE ON KEYSPACE ks TO bob", "GRANT ALTER ON KEYSPACE ks TO bob")
	mustRun(t, run, "bob", "CREATE MATERIALIZED VIEW ks.mv AS SELECT * FROM ks.v WHERE k IS NOT NULL AND n IS NOT "+
		"NULL PRIMARY KEY (n, k)")
	if got := n.directory.Granted("bob", auth.Table("ks", "mv")); got != 0 {
		t.Errorf("the creator of the view has %s on it", got)
	}
	if got := run("bob", "SELECT t FROM ks.mv"); !strings.Contains(got, "'h***o'") || strings.Contains(got, "hello") {
		t.Error(got)
	}
	if got := run("bob", "SELECT k FROM ks.mv WHERE n = 1 AND t = 'hello' ALLOW FILTERING"); got != "error 2100: "+
		"User bob has no UNMASK nor SELECT_MASKED "+
		"permission on table ks.mv, cannot query masked columns [t]\n" {
		t.Error(got)
	}
	mustRun(t, run, "root", "ALTER TABLE ks.v ALTER n MASKED WITH mask_replace(7)")
	if got := run("bob", "SELECT n FROM ks.mv"); !strings.Contains(got, "7") {
		t.Error(got)
	}
	mustRun(t, run, "root", "GRANT UNMASK ON TABLE ks.mv TO bob")
	if got := run("bob", "SELECT t FROM ks.mv"); !strings.Contains(got, "'hello'") {
		t.Error(got)
	}
	mustRun(t, run, "bob", "DROP MATERIALIZED VIEW ks.mv", "CREATE TABLE ks.own (k int PRIMARY KEY)")
	if n.directory.Granted("bob", auth.Table("ks", "own")) == 0 {
		t.Error("the creator of a table has no permissions on it")
	}
}

// TestMaskFunctionsNeedExecute: readers need no EXECUTE, as in Cassandra, so that who attaches the function does.
func TestMaskFunctionsNeedExecute(t *testing.T) {
	_, run := newGranting(t)
	mustRun(t, run, "root", "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': 1}",
		"CREATE FUNCTION ks.m(x int, y int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return y'",
		"CREATE TABLE ks.masked (k int PRIMARY KEY, v int MASKED WITH ks.m(7))",
		"INSERT INTO ks.masked (k, v) VALUES (1, 2)", "CREATE TABLE ks.t (k int PRIMARY KEY, v int)",
		"GRANT CREATE ON KEYSPACE ks TO bob", "GRANT ALTER ON KEYSPACE ks TO bob", "GRANT SELECT ON KEYSPACE ks TO bob")
	statements := []string{"CREATE TABLE ks.a (k int PRIMARY KEY, v int MASKED WITH ks.m(7))",
		"ALTER TABLE ks.t ALTER v MASKED WITH ks.m(7)",
		"ALTER TABLE ks.t ADD w int MASKED WITH ks.m(7)", "CREATE TABLE ks.b LIKE ks.masked"}
	for _, text := range statements {
		if got := run("bob", text); got != "error 0000: *auth.Denied User bob has no EXECUTE permission on "+
			"<function ks.m(int, int)> or any of its parents\n" {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := run("bob", "SELECT v FROM ks.masked"); !strings.Contains(got, "\n7\n") {
		t.Errorf("a reader without EXECUTE: %s", got)
	}
	mustRun(t, run, "root", "GRANT EXECUTE ON FUNCTION ks.m(int, int) TO bob")
	mustRun(t, run, "bob", statements...)
	mustRun(t, run, "root", "CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': 1}")
	if got := run("root", "CREATE TABLE other.b LIKE ks.masked"); !strings.Contains(got,
		"Masking function ks.m of column v doesn't belong to the same keyspace as the table other.b") {
		t.Errorf("a copy in another keyspace than the function, which would outlive it: %s", got)
	}
}

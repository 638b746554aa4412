package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/auth"
	"cqld/internal/tier"
	"cqld/query/roles"
	"cqld/query/system"
	"cqld/schema"
	"cqld/types"
)

// largeSchema is a processor whose schema, or directory of roles, has n elements of a kind.
type largeSchema struct {
	t testing.TB
	n *matrixServer
	p *Processor
	s *Session
}

func newLargeSchema(t testing.TB) *largeSchema {
	n := newMatrixRoles(t)
	p := New(Options{View: n, Changer: n, Virtual: system.New(system.Options{View: n, Roles: n.roles}),
		Executor: over(&modelStore{}),
		Clock:    &testClock{now: time.Unix(1700000000, 0)}, Rand: rand.NewPCG(1, 2),
		PagingKey: func() []byte { return []byte("key") },
		Roles:     n.statements()})
	l := &largeSchema{t, n, p, &Session{Version: 5, Keyspace: "ks"}}
	l.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	l.run("CREATE TABLE t (k int PRIMARY KEY, a int, b text)")
	l.run("CREATE ROLE r")
	return l
}

// newMatrixRoles returns a node with the superuser of alice.
func newMatrixRoles(t testing.TB) *matrixServer {
	n := &matrixServer{oneNode: newOneNode(), directory: auth.NewDirectory()}
	yes := true
	superuser := &auth.CreateRole{Name: "alice", Settings: auth.RoleSettings{Superuser: &yes, Login: &yes}}
	if err := n.ProposeRoles(context.Background(), superuser); err != nil {
		t.Fatal(err)
	}
	return n
}

// statements executes statements about roles, with all parts of access control.
func (s *matrixServer) statements() *roles.Statements {
	return roles.New(roles.Options{Directory: s.roles, Schema: s.Schema, Topology: s.Topology, Changer: s,
		Hash: func(context.Context, string) (string, error) { return "$2a$04$" + strings.Repeat("x", 53), nil },
		Config: roles.Config{Authentication: true, Authorization: true, Network: true, CIDR: true,
			Options: []string{"o0", "o1"}}})
}

// run executes a statement, and the following pages of its result.
func (l *largeSchema) run(text string) {
	params := &Params{PageSize: 10} // small, so that work of every page on the whole schema becomes visible
	if strings.HasPrefix(text, "DESCRIBE") {
		params.PageSize = 100 // each page sorts all names, as in Cassandra
	}
	for {
		result, err := l.p.Query(alice(), l.s, text, params)
		if err != nil {
			l.t.Fatalf("%.200s: %v", text, err)
		}
		if params.PagingState = result.PagingState; params.PagingState == nil {
			return
		}
	}
}

// apply changes the schema without a statement, which is faster.
func (l *largeSchema) apply(c schema.Change) {
	next, err := schema.Apply(l.n.schema, c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.n.schema = next
}

// many lists n numbered parts.
func many(part string, n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strings.ReplaceAll(part, "#", fmt.Sprint(i)))
	}
	return b.String()
}

// enlargements are the kinds of elements, with their greatest numbers.
func enlargements() map[string]struct {
	max int
	add func(l *largeSchema, n int)
} {
	type enlargement = struct {
		max int
		add func(l *largeSchema, n int)
	}
	each := func(format string) func(l *largeSchema, n int) {
		return func(l *largeSchema, n int) {
			for i := range n {
				l.run(fmt.Sprintf(format, i))
			}
		}
	}
	return map[string]enlargement{
		"tables": {10_000, func(l *largeSchema, n int) {
			for i := range n {
				l.apply(&schema.CreateTable{Keyspace: "ks", Table: fmt.Sprintf("t%d", i),
					ID: schema.UUID{9, byte(i >> 8), byte(i)}, Options: schema.DefaultOptions(),
					Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Int)},
						{Name: "v", Kind: schema.Regular, Type: types.Native(types.Int)}}})
			}
		}},
		"columns": {9_000, func(l *largeSchema, n int) { l.run("ALTER TABLE t ADD (" + many("c# int", n) + ")") }},
		"fields":  {9_000, func(l *largeSchema, n int) { l.run("CREATE TYPE large (" + many("f# int", n) + ")") }},
		"indexes": {1_000, func(l *largeSchema, n int) {
			l.run("ALTER TABLE t ADD (" + many("c# int", n) + ")")
			each("CREATE INDEX ON t (c%d)")(l, n)
		}},
		"views": {1_000, each("CREATE MATERIALIZED VIEW v%d AS SELECT k FROM t WHERE k IS NOT NULL PRIMARY KEY " +
			"(k)")},
		"functions": {1_000, each("CREATE FUNCTION f%d (a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS " +
			"'return 1'")},
		"keyspaces": {1_000, each("CREATE KEYSPACE k%d WITH replication = {'class': 'SimpleStrategy', " +
			"'replication_factor': 1}")},
		"roles": {1_000, each("CREATE ROLE r%d")},
	}
}

// schemaStatements are statements on the schema and on roles, in an order in which each finds the elements that it
// needs. # is the number of the execution.
func schemaStatements() []string {
	return []string{
		"CREATE KEYSPACE x# WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"ALTER KEYSPACE x# WITH durable_writes = false", "COMMENT ON KEYSPACE x# IS 'a'",
		"SECURITY LABEL ON KEYSPACE x# IS 'a'", "DROP KEYSPACE x#",
		"ALTER KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
		"ALTER KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TYPE y# (a int, b int)", "ALTER TYPE y# RENAME a TO c", "COMMENT ON TYPE y# IS 'a'",
		"COMMENT ON FIELD y#.c IS 'a'",
		"CREATE TABLE x# (k int, c int, v int, w frozen<y#>, PRIMARY KEY (k, c)) WITH comment = 'a'",
		"CREATE TABLE z# LIKE x# WITH INDEXES",
		"ALTER TABLE x# ADD n int", "ALTER TABLE x# DROP n", "ALTER TABLE x# RENAME c TO d",
		"ALTER TABLE x# WITH gc_grace_seconds = 5",
		"COMMENT ON TABLE x# IS 'b'", "COMMENT ON COLUMN x#.v IS 'b'", "SECURITY LABEL ON COLUMN x#.v IS 'b'",
		"ALTER TABLE x# ALTER v CHECK v > 1",
		"ALTER TABLE t ADD n int", "CREATE INDEX x#_v ON x# (v)", "CREATE INDEX ON x# (d)", "DROP INDEX x#_v",
		"DROP INDEX x#_d_idx",
		"CREATE MATERIALIZED VIEW w# AS SELECT * FROM x# WHERE k IS NOT NULL AND d IS NOT NULL PRIMARY KEY (d, k)",
		"ALTER MATERIALIZED VIEW w# WITH comment = 'a'", "DROP MATERIALIZED VIEW w#",
		"CREATE FUNCTION g# (s int, a int) CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'",
		"CREATE AGGREGATE h# (int) SFUNC g# STYPE int", "DROP AGGREGATE h#", "DROP FUNCTION g#",
		"CREATE ROLE s# WITH PASSWORD = 'a' AND LOGIN = true",
		"ALTER ROLE s# WITH ACCESS TO DATACENTERS {'datacenter1'}", "GRANT SELECT ON x# TO s#",
		"GRANT r TO s#", "LIST ALL PERMISSIONS OF s#", "LIST ROLES OF s#", "REVOKE r FROM s#",
		"REVOKE SELECT ON x# FROM s#", "DROP ROLE s#",
		"DESCRIBE TABLE x#", "DESCRIBE KEYSPACE ks", "DESCRIBE SCHEMA", "DESCRIBE FULL SCHEMA", "DESCRIBE TABLES",
		"DESCRIBE TYPES", "DESCRIBE FUNCTIONS",
		"DESCRIBE KEYSPACES", "DESCRIBE t", "DESCRIBE TYPE y#", "DESCRIBE CLUSTER",
		"SELECT * FROM system_schema.keyspaces", "SELECT * FROM system_schema.tables",
		"SELECT * FROM system_schema.columns",
		"SELECT * FROM system_schema.views", "SELECT * FROM system_schema.indexes",
		"SELECT * FROM system_schema.types", "SELECT * FROM system_schema.functions",
		"SELECT * FROM system_schema.aggregates", "SELECT * FROM system_schema.dropped_columns",
		"SELECT * FROM system_schema.column_masks",
		"SELECT * FROM system_views.schema_comments", "SELECT * FROM system_auth.roles",
		oneTable, oneColumns, "TRUNCATE x#", "DROP TABLE z#", "DROP TABLE x#", "DROP TYPE y#",
	}
}

// oneTable and oneColumns are the statements with which drivers follow a change of a table.
const (
	oneTable   = "SELECT * FROM system_schema.tables WHERE keyspace_name = 'ks' AND table_name = 'x#'"
	oneColumns = "SELECT * FROM system_schema.columns WHERE keyspace_name = 'ks' AND table_name = 'x#'"
)

// execute executes the statements once, and returns what each used.
func (l *largeSchema) execute(round int) map[string]effort {
	used := map[string]effort{}
	for _, form := range schemaStatements() {
		text := strings.ReplaceAll(form, "#", fmt.Sprint("x", round))
		text = strings.Replace(text, "TABLE t ADD n", fmt.Sprintf("TABLE t ADD n%d", round), 1)
		used[form] = measured(func() { l.run(text) })
	}
	return used
}

// TestSchemaStatementsGrowLinearly executes statements on a schema and on one that is 8 times as large. On the larger
// one, a statement may allocate at most 16 times as much memory and use at most 40 times as much processor time; a
// quadratic statement would use 64 times as much. A statement about a single table must cost the same on both.
func TestSchemaStatementsGrowLinearly(t *testing.T) {
	tier.Long(t)
	if raceEnabled {
		t.Skip("the race detector distorts processor time and allocations")
	}
	const times = 8
	for name, kind := range enlargements() {
		t.Run(name, func(t *testing.T) {
			n := kind.max / 5
			small, large := newLargeSchema(t), newLargeSchema(t)
			kind.add(small, n/times)
			kind.add(large, n)
			var wrong map[string]string // grew in all rounds: a pause is no growth
			for round := range 3 {
				before := wrong
				wrong = map[string]string{}
				few, all := small.execute(round), large.execute(round)
				for form, more := range all {
					if _, again := before[form]; round > 0 && !again {
						continue
					}
					less, memory := few[form], uint64(2*times)
					if name == "tables" && (form == oneTable || form == oneColumns || form == "DESCRIBE TABLE x#") {
						memory = 2
					}
					if more.bytes > memory*less.bytes+1<<18 || more.time > 20*time.Millisecond &&
						more.time > 5*times*less.time {
						wrong[form] = fmt.Sprintf("%d bytes and %v beside %d, %d bytes and %v beside %d", less.bytes,
							less.time, n/times, more.bytes, more.time, n)
					}
				}
				if len(wrong) == 0 {
					return
				}
			}
			for form, what := range wrong {
				t.Errorf("%s: %s", form, what)
			}
		})
	}
}

// BenchmarkSchemaStatements executes each statement on schemas with 1,000 elements of a kind and with as many as
// enlargements has.
func BenchmarkSchemaStatements(b *testing.B) {
	kinds := enlargements()
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		kind := kinds[name]
		for _, n := range []int{kind.max / 10, kind.max} {
			b.Run(fmt.Sprintf("%s=%d", name, n), func(b *testing.B) {
				l := newLargeSchema(b)
				kind.add(l, n)
				var all map[string]effort
				round := 0
				for b.Loop() {
					all = l.execute(round)
					round++
				}
				// The log of a benchmark is cut after ten lines: the most expensive statements come first.
				forms := slices.SortedFunc(maps.Keys(all), func(x, y string) int {
					return cmp.Compare(all[y].time, all[x].time)
				})
				for _, form := range forms {
					b.Logf("%v\t%d B\t%s", all[form].time, all[form].bytes, form)
				}
			})
		}
	}
}

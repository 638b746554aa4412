package query

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/query/guardrail"
	"cqld/ring"
)

// lowGuardrails returns guardrails that small statements violate.
func lowGuardrails() *guardrail.Guardrails {
	g := &guardrail.Guardrails{}
	for _, f := range guardrail.Flags() {
		g.Disabled[f] = f != guardrail.VectorType && f != guardrail.AlterTable && f != guardrail.SimpleStrategy
	}
	bound := func(t guardrail.Threshold, warn, fail int64) { g.Warn[t], g.Fail[t] = warn, fail }
	bound(guardrail.Keyspaces, 2, 3)
	bound(guardrail.Tables, 4, 6)
	bound(guardrail.ColumnsPerTable, 4, 5)
	bound(guardrail.FieldsPerUDT, 2, 3)
	bound(guardrail.VectorDimensions, 4, 6)
	bound(guardrail.MinimumReplicationFactor, 2, 1)
	bound(guardrail.MaximumReplicationFactor, 4, 5)
	bound(guardrail.MaterializedViewsPerTable, 1, 2)
	bound(guardrail.PageSize, 200, 300)
	bound(guardrail.PartitionKeysInSelect, 2, 3)
	bound(guardrail.InSelectProduct, 4, 6)
	bound(guardrail.CollectionSize, 64, 128)
	bound(guardrail.ItemsPerCollection, 3, 4)
	bound(guardrail.ColumnValueSize, 64, 128)
	bound(guardrail.SAIStringTermSize, 10, 20)
	bound(guardrail.SAIFrozenTermSize, 10, 20)
	bound(guardrail.SAIVectorTermSize, 8, 12)
	g.Warned[guardrail.TableProperties] = []string{"cdc"}
	g.Ignored[guardrail.TableProperties] = []string{"comment"}
	g.Disallowed[guardrail.TableProperties] = []string{"extensions"}
	g.Warned[guardrail.WriteConsistency] = []string{"ONE"}
	g.Warned[guardrail.ReadConsistency] = []string{"ONE"}
	g.ZeroTTLRefused = true
	return g
}

// TestGuardrailsAnswerAsCassandra executes statements that violate guardrails. The messages were recorded from
// Cassandra 5.0.9 with the same thresholds.
func TestGuardrailsAnswerAsCassandra(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{})
	p.services.Guardrails, p.services.BoundsData = lowGuardrails(), true
	p.o.DropCompactStorage = false
	p.services.IsSuperuser = func(role string) bool { return role == "admin" }
	datadriven.RunTest(t, "testdata/guardrails.txt", func(_ *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, text := range strings.Split(d.Input, "\n") {
			out.WriteString(runStatementAs(p, s, map[string]string{"run": "", "admin": "admin"}[d.Cmd], text))
		}
		return out.String()
	})
}

// TestDefaultGuardrailsPermitEverything checks that the zero value does not read the clock of requests, and warns of
// one definition only.
func TestDefaultGuardrailsPermitEverything(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int PRIMARY KEY, v list<text>)")
	p.services.Guardrails = &guardrail.Guardrails{}
	if p.services.Guardrails.BoundsData() {
		t.Fatal("the zero value bounds statements")
	}
	for _, text := range []string{
		"INSERT INTO t (k, v) VALUES (1, ['a', 'b', 'c', 'd', 'e']) USING TIMESTAMP 5",
		"CREATE TABLE w (k int PRIMARY KEY) WITH compaction = {'class': 'TimeWindowCompactionStrategy'}",
		"TRUNCATE t",
	} {
		if got := runStatement(p, s, text); got != "ok\n" && !strings.HasPrefix(got, "error 0000") {
			t.Errorf("%s: %s", text, got)
		}
	}
	got := runStatementAs(p, s, "app", "CREATE TABLE x (k int PRIMARY KEY) WITH compaction = {'class': "+
		"'TimeWindowCompactionStrategy'}")
	if !strings.HasPrefix(got, "warning: Guardrail zero_ttl_on_twcs violated: 0 default_time_to_live") {
		t.Errorf("a role that logged in: %s", got)
	}
}

// TestTermsOfIndexesAndIntersections writes terms beyond low thresholds of the guardrails that are set by default, and
// reads with filters by several columns.
func TestTermsOfIndexesAndIntersections(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE KEYSPACE three WITH replication = {'class': "+
		"'SimpleStrategy', 'replication_factor': 3}")
	g := guardrail.Defaults()
	g.Warn[guardrail.SAIStringTermSize], g.Fail[guardrail.SAIStringTermSize] = 10, 20
	g.Warn[guardrail.SAIFrozenTermSize], g.Fail[guardrail.SAIFrozenTermSize] = 10, 20
	g.Warn[guardrail.SAIVectorTermSize], g.Fail[guardrail.SAIVectorTermSize] = 8, 12
	p.services.Guardrails, p.services.BoundsData = &g, g.BoundsData()
	p.services.IsSuperuser = func(role string) bool { return role == "admin" }
	datadriven.RunTest(t, "testdata/guardrails_terms.txt", func(t *testing.T, d *datadriven.TestData) string {
		level := ring.One
		if d.HasArg("quorum") {
			level = ring.Quorum
		}
		g.IntersectionsRefused = d.HasArg("refused")
		var out strings.Builder
		for _, text := range strings.Split(d.Input, "\n") {
			r := at(level)
			r.Principal.Name = map[string]string{"run": "", "app": "app", "admin": "admin"}[d.Cmd]
			result, err := p.Query(r, s, text, &Params{})
			if err == nil && result.Kind == KindSetKeyspace {
				s.Keyspace = result.Keyspace
			}
			for _, w := range r.Warnings {
				out.WriteString("warning: " + strings.SplitN(w, "\n", 2)[0] + "\n")
			}
			if err == nil {
				out.WriteString("ok\n")
			} else {
				out.WriteString(errorText(err))
			}
		}
		return out.String()
	})
}

// TestDefaultBoundOfColumns creates and extends tables up to the default bound of columns, and beyond it.
func TestDefaultBoundOfColumns(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{})
	g := guardrail.Defaults()
	p.services.Guardrails = &g
	p.services.IsSuperuser = func(role string) bool { return role == "admin" }
	columns := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ", c%d int", i)
		}
		return b.String()
	}
	const message = "error 2200: Guardrail columns_per_table violated: Tables cannot have more than 10000 columns, " +
		"but %d provided for table %s\n"
	for _, c := range []struct{ role, text, want string }{
		{"app", "CREATE TABLE a (k int PRIMARY KEY" + columns(10_000) + ")", fmt.Sprintf(message, 10_001, "a")},
		{"app", "CREATE TABLE b (k int PRIMARY KEY" + columns(9_999) + ")", "ok\n"},
		{"app", "ALTER TABLE b ADD d int", fmt.Sprintf(message, 10_001, "b")},
		{"admin", "ALTER TABLE b ADD d int", "ok\n"},
		{"admin", "CREATE TABLE c (k int PRIMARY KEY" + columns(10_000) + ")", "ok\n"},
	} {
		if got := runStatementAs(p, s, c.role, c.text); got != c.want {
			t.Errorf("%s, %.20s…: %s, want %s", c.role, c.text, got, c.want)
		}
	}
}

// TestTypesCountWhereverTheyAreUsed creates tables whose columns have a large user-defined type, up to the bound of all
// parts.
func TestTypesCountWhereverTheyAreUsed(t *testing.T) {
	fields := "f0 int"
	for i := range 999 {
		fields += fmt.Sprintf(", f%d int", i+1)
	}
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TYPE u ("+fields+")", "CREATE TYPE v (a int)")
	columns := func(n int, of string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ", c%d frozen<%s>", i, of)
		}
		return b.String()
	}
	const refused = "error 2200: The types have more than 131072 parts in all: those of a user-defined type count " +
		"wherever it is used\n"
	for _, c := range []struct{ text, want string }{
		{"CREATE TABLE a (k int PRIMARY KEY" + columns(131, "u") + ")", refused},
		{"CREATE TABLE b (k int PRIMARY KEY" + columns(130, "u") + ")", "ok\n"},
		{"ALTER TABLE b ADD d frozen<u>", refused},
		{"CREATE TABLE c (k int PRIMARY KEY" + columns(1000, "v") + ")", "ok\n"},
		{"ALTER TYPE v ADD b frozen<u>", refused},
		{"ALTER TYPE v ADD b int", "ok\n"},
		{"CREATE FUNCTION f (" + strings.TrimPrefix(columns(131, "u"), ", ") +
			") CALLED ON NULL INPUT RETURNS int LANGUAGE lua AS 'return 1'", ""},
	} {
		got := runStatement(p, s, c.text)
		if c.want != "" && got != c.want || c.want == "" && !strings.HasPrefix(got, "error") {
			t.Errorf("%.30s…: %s, want %s", c.text, got, c.want)
		}
	}
}

// TestIndexesOfACopiedTableAreBounded: CREATE TABLE … LIKE … WITH INDEXES creates no more indexes than CREATE INDEX
// may.
func TestIndexesOfACopiedTableAreBounded(t *testing.T) {
	bounds := func(o *Options) { o.Indexes.PerTableWarn, o.Indexes.PerTableFail = 1, 3 }
	p, s := newProcessorWith(t, &modelStore{}, bounds,
		"CREATE TABLE t (k int PRIMARY KEY, a int, b int, c int)", "CREATE INDEX one ON t (a)")
	const warning = "warning: Guardrail secondary_indexes_per_table violated: Creating secondary index %s, current " +
		"number of indexes %d exceeds warning threshold of 1.\nok\n"
	run := func(text, want string) {
		t.Helper()
		if got := runStatement(p, s, text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	run("CREATE TABLE t1 LIKE t WITH INDEXES", "ok\n")
	run("CREATE INDEX ON t (b)", fmt.Sprintf(warning, "on table t", 2))
	run("CREATE INDEX three ON t (c)", fmt.Sprintf(warning, "three on table t", 3))
	run("CREATE TABLE t2 LIKE t WITH INDEXES", fmt.Sprintf(warning, "three_1 on table t2", 3))
	p.o.Indexes.PerTableFail = 2
	run("CREATE TABLE t3 LIKE t WITH INDEXES", "error 2200: Guardrail secondary_indexes_per_table violated: Tables "+
		"cannot have more than 2 secondary indexes, aborting the creation of secondary index three_2 on table t3\n")
	run("CREATE TABLE t4 LIKE t", "ok\n")
	run("CREATE TABLE IF NOT EXISTS t4 LIKE t WITH INDEXES", "ok\n")
}

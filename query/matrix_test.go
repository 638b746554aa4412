package query

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/cql"
	"cqld/internal/matrix"
)

const (
	matrixDir = "../internal/matrix/testdata"
	// cellsMin is the minimum number of cells in the permission matrix.
	cellsMin = 40000
)

// TestPermissionMatrix plays the permission matrix, whose answers were recorded from Cassandra. Each cell must be
// equal, except for those of differences.txt.
func TestPermissionMatrix(t *testing.T) {
	m := loadMatrix(t)
	differences := loadDifferences(t)
	cells := 0
	for _, file := range matrixFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s := newMatrixServer(t, m)
			playRows(t, file, func(d *datadriven.TestData, r *matrix.Row) {
				want, err := m.Parse(d.Expected)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				got, err := m.Play(s, r)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				cells += len(got)
				differences.check(r.Statement, m.Differences(want, got))
			})
		})
	}
	t.Logf("%d cells", cells)
	playScenarios(t, m, differences)
	for _, failure := range differences.failures { // not before: datadriven stops at the first
		t.Error(failure)
	}
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // some of the rows only
	}
	if cells < cellsMin {
		t.Errorf("%d cells, want at least %d", cells, cellsMin)
	}
	differences.finish(t)
}

// playScenarios plays sequences of statements: for example, a revoked permission ends at the next execution of a
// prepared statement.
func playScenarios(t *testing.T, m *matrix.Matrix, differences *differences) {
	t.Helper()
	pairs := map[string][]matrix.Pair{}
	server := newMatrixServer(t, m) // each scenario begins with what the previous ones left, as when they were recorded
	datadriven.RunTest(t, filepath.Join(matrixDir, "scenarios.txt"), func(t *testing.T, d *datadriven.TestData) string {
		steps, err := m.PlayScenario(server, d)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		want := strings.Split(d.Expected, "\n")
		if len(want) != 2*len(steps)+1 {
			d.Fatalf(t, "%d lines for %d steps", len(want), len(steps))
		}
		for i, s := range steps {
			pairs[s.Step] = append(pairs[s.Step], matrix.Pair{Want: strings.TrimSpace(want[2*i+1]),
				Got: strings.TrimSpace(s.Answer)})
		}
		return d.Expected
	})
	for step, answers := range pairs {
		differences.check(step, matrix.FormatPairs(answers))
	}
}

// TestPermissionMatrixHasEveryStatement checks that there is a row for each kind of statement of package cql, and that
// no statement has two.
func TestPermissionMatrixHasEveryStatement(t *testing.T) {
	missing, rows := statementKinds(t), map[string]bool{}
	for _, kind := range []string{"Explain", "CreateTableLike", "CommentOn", "UndropTable", "PurgeTable",
		"UndropKeyspace", "PurgeKeyspace"} {
		delete(missing, kind) // which Cassandra 5 does not have: see TestEveryKindOfStatementAsksForItsPermissions
	}
	for _, file := range matrixFiles(t) {
		playRows(t, file, func(d *datadriven.TestData, r *matrix.Row) {
			if rows[r.Statement] {
				t.Errorf("%s: another row has the same statement", d.Pos)
			}
			rows[r.Statement] = true
			if stmt, err := cql.Parse(strings.ReplaceAll(r.Statement, matrix.Me, "me")); err == nil {
				delete(missing, reflect.TypeOf(stmt).Elem().Name())
			}
		})
	}
	for kind := range missing {
		t.Errorf("the permission matrix has no statement of kind %s", kind)
	}
}

// TestExplainNeedsThePermissionsOfItsSelect: EXPLAIN is refused to the users to whom its SELECT is.
func TestExplainNeedsThePermissionsOfItsSelect(t *testing.T) {
	m := loadMatrix(t)
	s := newMatrixServer(t, m)
	const statement = "SELECT v FROM mx.t WHERE k = 1"
	want, err := m.Play(s, &matrix.Row{Statement: statement})
	if err != nil {
		t.Fatal(err)
	}
	for _, explain := range []string{"EXPLAIN ", "EXPLAIN ANALYZE "} {
		got, err := m.Play(s, &matrix.Row{Statement: explain + statement})
		if err != nil {
			t.Fatal(err)
		}
		if text := m.Differences(want, got); text != "" {
			t.Errorf("%s differs from its SELECT:\n%s", explain, text)
		}
	}
}

// TestMutationFragmentsNeedThePermissionsOfTheirTable: fragments are refused to the users to whom a SELECT of the table
// is. If the table has masks, they are also refused to users without UNMASK, to whom a SELECT returns masked values.
func TestMutationFragmentsNeedThePermissionsOfTheirTable(t *testing.T) {
	m := loadMatrix(t)
	s := newMatrixServer(t, m)
	play := func(statement string) matrix.Answers {
		answers, err := m.Play(s, &matrix.Row{Statement: statement})
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	want, got := play("SELECT * FROM mx.t WHERE k = 1"), play("SELECT * FROM MUTATION_FRAGMENTS(mx.t) WHERE k = 1")
	if text := m.Differences(want, got); text != "" {
		t.Errorf("fragments differ from the SELECT:\n%s", text)
	}
	selected, fragments := play("SELECT * FROM mx.m WHERE k = 1"),
		play("SELECT * FROM MUTATION_FRAGMENTS(mx.m) WHERE k = 1")
	refusals := map[string]bool{
		"UNAUTHORIZED: User $me has no UNMASK nor SELECT_MASKED permission on table mx.m, cannot query masked " +
			"columns [s]": false,
		"UNAUTHORIZED: User $me has no UNMASK permission on table mx.m, cannot read its mutation " +
			"fragments": false,
	}
	for _, u := range m.Users {
		answer := fragments[u.Label]
		_, masked := refusals[answer]
		switch {
		case masked && selected[u.Label] == "OK" && !strings.Contains(u.Label, "UNMASK"):
			refusals[answer] = true
		case answer != selected[u.Label]:
			t.Errorf("%s: %s, but the SELECT answers %s", u.Label, answer, selected[u.Label])
		}
	}
	for answer, seen := range refusals {
		if !seen {
			t.Errorf("no user is answered %s", answer)
		}
	}
}

// differences are the entries of differences.txt, by statement.
type differences struct {
	expected map[string]*matrix.Difference
	actual   map[string]string
	failures []string
}

func loadDifferences(t *testing.T) *differences {
	t.Helper()
	out := &differences{expected: map[string]*matrix.Difference{}, actual: map[string]string{}}
	datadriven.RunTest(t, filepath.Join(matrixDir, "differences.txt"),
		func(t *testing.T, d *datadriven.TestData) string {
			one, err := matrix.ParseDifference(d)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			if out.expected[one.Statement] != nil {
				d.Fatalf(t, "another entry has the same statement")
			}
			out.expected[one.Statement] = one
			return d.Expected
		})
	return out
}

// check compares the differences of a statement with the expected ones.
func (x *differences) check(statement, text string) {
	e := x.expected[statement]
	if text != "" {
		x.actual[statement] = text
	}
	switch {
	case e == nil && text == "", e != nil && text == e.Text:
	case e == nil:
		x.failures = append(x.failures, fmt.Sprintf("an unexpected difference:\n\ndiffers\n%s\nreason: \n----\n%s",
			statement, text))
	case text != "":
		x.failures = append(x.failures, fmt.Sprintf("%s (%s):\n%swant\n%s", statement, e.Reason, text, e.Text))
	}
}

// finish reports entries that are outdated.
func (x *differences) finish(t *testing.T) {
	t.Helper()
	for _, statement := range slices.Sorted(maps.Keys(x.expected)) {
		if x.actual[statement] == "" {
			t.Errorf("differences.txt is outdated: there is no longer a difference: %s", statement)
		}
	}
}

func loadMatrix(t *testing.T) *matrix.Matrix {
	t.Helper()
	m, err := matrix.Load(os.DirFS(matrixDir))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func matrixFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(matrixDir, "rows", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatal("no rows", err)
	}
	return files
}

// playRows calls play for each row of a file. It never rewrites the file: its answers are Cassandra's.
func playRows(t *testing.T, file string, play func(*datadriven.TestData, *matrix.Row)) {
	t.Helper()
	datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
		r, err := matrix.ParseRow(d)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		play(d, r)
		return d.Expected
	})
}

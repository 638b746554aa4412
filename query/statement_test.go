package query

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/ring"
)

// TestStatementsAnswerAsCassandra executes statements on a model of storage. The recorded answers were compared with
// those of Cassandra 5.0.9.
func TestStatementsAnswerAsCassandra(t *testing.T) { playStatements(t, "testdata/statement") }

// TestExtensions executes statements that Cassandra 5 does not have.
func TestExtensions(t *testing.T) { playStatements(t, "testdata/extension") }

func playStatements(t *testing.T, directory string) {
	datadriven.Walk(t, directory, func(t *testing.T, path string) {
		p, s := newTestProcessor(t, &modelStore{})
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, text := range strings.Split(d.Input, "\n") {
				out.WriteString(runStatement(p, s, text))
			}
			return out.String()
		})
	})
}

func runStatement(p *Processor, s *Session, text string) string {
	return runStatementAs(p, s, "", text)
}

// runStatementAs executes a statement for a role.
func runStatementAs(p *Processor, s *Session, role, text string) string {
	req := at(ring.One)
	req.Principal.Name = role
	r, err := p.Query(req, s, text, &Params{})
	if err != nil {
		var failure *invalid.FunctionFailure
		if errors.As(err, &failure) {
			return "error 1400: " + failure.Msg + "\n"
		}
		return errorText(err)
	}
	var out strings.Builder
	for _, w := range req.Warnings {
		fmt.Fprintf(&out, "warning: %s\n", w)
	}
	switch r.Kind {
	case KindSetKeyspace:
		s.Keyspace = r.Keyspace
	case KindRows:
		out.WriteString(renderRows(r))
		return out.String()
	}
	out.WriteString("ok\n")
	return out.String()
}

// renderRows renders a result as text: a line with names and types, and a line for each row.
func renderRows(r *Result) string {
	var out strings.Builder
	for i, c := range r.Metadata.Columns {
		if i > 0 {
			out.WriteString(" | ")
		}
		out.WriteString(c.Name + " " + c.Type.String())
	}
	out.WriteByte('\n')
	c := wire.NewCursor(r.Rows)
	for range r.RowCount {
		for i, col := range r.Metadata.Columns {
			if i > 0 {
				out.WriteString(" | ")
			}
			if b := c.Bytes(); b == nil {
				out.WriteString("null")
			} else {
				out.Write(col.Type.AppendLiteral(nil, b))
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// TestPagesOfAnySizeGiveTheSameRows checks that the concatenated pages of a result, of any size, equal the result
// without paging.
func TestPagesOfAnySizeGiveTheSameRows(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int, c int, d int, v text, st text STATIC, "+
		"PRIMARY KEY (k, c, d))")
	for k := range 6 {
		if k%2 == 0 {
			mustQuery(t, p, s, fmt.Sprintf("UPDATE t SET st = 's%d' WHERE k = %d", k, k))
		}
		for c := range k * 2 {
			for d := range 3 {
				mustQuery(t, p, s, fmt.Sprintf("INSERT INTO t (k, c, d, v) VALUES (%d, %d, %d, 'v%d')", k, c, d, d))
			}
		}
	}
	mustQuery(t, p, s, "DELETE FROM t WHERE k = 3 AND c > 1 AND c < 4")
	for _, text := range []string{
		"SELECT * FROM t",
		"SELECT * FROM t WHERE k = 3",
		"SELECT * FROM t WHERE k = 5 ORDER BY c DESC, d DESC",
		"SELECT * FROM t WHERE k IN (5, 0, 2, 1)",
		"SELECT * FROM t WHERE k IN (1, 5) AND c IN (0, 3, 1) AND d > 0",
		"SELECT * FROM t WHERE token(k) > -3485513579396041028",
		"SELECT * FROM t LIMIT 17",
		"SELECT * FROM t PER PARTITION LIMIT 4",
		"SELECT * FROM t PER PARTITION LIMIT 4 LIMIT 10",
		"SELECT * FROM t WHERE v = 'v1' ALLOW FILTERING",
		"SELECT * FROM t WHERE v = 'v1' PER PARTITION LIMIT 2 ALLOW FILTERING",
		"SELECT * FROM t WHERE st = 's2' ALLOW FILTERING",
		"SELECT DISTINCT k, st FROM t",
		"SELECT k, c, count(*) FROM t GROUP BY k, c",
		"SELECT k, c, max(d) FROM t GROUP BY k, c PER PARTITION LIMIT 3",
		"SELECT k, count(*) FROM t GROUP BY k LIMIT 3",
		"SELECT count(*), max(v) FROM t",
	} {
		want := collectPages(t, p, s, text, 0)
		for _, size := range []int32{1, 2, 3, 5, 8, 13, 1000} {
			if got := collectPages(t, p, s, text, size); got != want {
				t.Errorf("%s, pages of %d:\n%swant\n%s", text, size, got, want)
			}
		}
	}
}

// collectPages executes a statement page by page and renders all rows.
func collectPages(t *testing.T, p *Processor, s *Session, text string, size int32) string {
	t.Helper()
	params := &Params{PageSize: size}
	var all strings.Builder
	for pages := 0; ; pages++ {
		r, err := p.Query(at(ring.One), s, text, params)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if size > 0 && r.RowCount > size {
			t.Fatalf("%s: a page of %d has %d rows", text, size, r.RowCount)
		}
		_, rows, _ := strings.Cut(renderRows(r), "\n")
		all.WriteString(rows)
		if r.PagingState == nil {
			return all.String()
		}
		if pages > 1000 {
			t.Fatalf("%s: pages of %d do not end", text, size)
		}
		params.PagingState = r.PagingState
	}
}

// TestPagingStatesAreOurs checks that a changed, invented or foreign paging state is refused.
func TestPagingStatesAreOurs(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))",
		"CREATE TABLE u (k int, c int, PRIMARY KEY (k, c))")
	for c := range 4 {
		mustQuery(t, p, s, fmt.Sprintf("INSERT INTO t (k, c) VALUES (1, %d)", c))
	}
	query := func(text string, state []byte) (*Result, error) {
		return p.Query(at(ring.One), s, text, &Params{PageSize: 2, PagingState: state})
	}
	r, err := query("SELECT * FROM t", nil)
	if err != nil || r.PagingState == nil {
		t.Fatalf("no paging state: %v", err)
	}
	var bad *invalid.BadRequest
	for i := range r.PagingState {
		state := append([]byte(nil), r.PagingState...)
		state[i] ^= 1
		if _, err := query("SELECT * FROM t", state); !errors.As(err, &bad) {
			t.Errorf("byte %d changed: %v", i, err)
		}
	}
	for _, state := range [][]byte{{1}, []byte("no paging state at all"), r.PagingState[:len(r.PagingState)-1]} {
		if _, err := query("SELECT * FROM t", state); !errors.As(err, &bad) {
			t.Errorf("%q: %v", state, err)
		}
	}
	if _, err := query("SELECT * FROM u", r.PagingState); !errors.As(err, &bad) {
		t.Errorf("another table's: %v", err)
	}
	other, session := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))")
	if _, err := other.Query(at(ring.One), session, "SELECT * FROM t",
		&Params{PageSize: 2, PagingState: r.PagingState}); err != nil {
		t.Errorf("on another node: %v", err)
	}
}

// TestResultsOfOnePageContinueNothing checks that a statement whose result is one page refuses the paging state of
// another one.
func TestResultsOfOnePageContinueNothing(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int, l int, c int, v int, PRIMARY KEY ((k, l), c))")
	for c := range 4 {
		mustQuery(t, p, s, fmt.Sprintf("INSERT INTO t (k, l, c) VALUES (1, 1, %d)", c))
	}
	r, err := p.Query(at(ring.One), s, "SELECT * FROM t", &Params{PageSize: 2})
	if err != nil || r.PagingState == nil {
		t.Fatalf("no paging state: %v", err)
	}
	for _, text := range []string{
		"SELECT * FROM t WHERE k = 1 AND l = 1 ORDER BY v ALLOW FILTERING",
		"SELECT k, count(*) FROM t GROUP BY k ALLOW FILTERING",
	} {
		if _, err := p.Query(at(ring.One), s, text, &Params{PageSize: 2}); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var bad *invalid.BadRequest
		_, err := p.Query(at(ring.One), s, text, &Params{PageSize: 2, PagingState: r.PagingState})
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLimitOfLaterPages checks that a later page has its LIMIT although the first page had none, because its marker was
// unset.
func TestLimitOfLaterPages(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int, c int, PRIMARY KEY (k, c))")
	for c := range 9 {
		mustQuery(t, p, s, fmt.Sprintf("INSERT INTO t (k, c) VALUES (1, %d)", c))
	}
	params := &Params{PageSize: 2}
	r, err := p.Query(at(ring.One), s, "SELECT c FROM t", params)
	if err != nil || r.RowCount != 2 || r.PagingState == nil {
		t.Fatalf("first page: %d rows, %v", r.RowCount, err)
	}
	params.PagingState, params.PageSize = r.PagingState, 100
	if r, err = p.Query(at(ring.One), s, "SELECT c FROM t LIMIT 3", params); err != nil || r.RowCount != 3 {
		t.Errorf("second page: %d rows, %v, want 3", r.RowCount, err)
	}
}

// TestLastPagesHaveCassandrasStates checks that a full page of groups has a paging state, even if no group follows, as
// in Cassandra, and that no page has one that completes the last partition of WHERE.
func TestLastPagesHaveCassandrasStates(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int, c int, st int STATIC, PRIMARY KEY (k, c))",
		"CREATE TABLE u (k int PRIMARY KEY, v int)")
	for _, text := range []string{
		"INSERT INTO t (k, c) VALUES (1, 1)", "INSERT INTO t (k, c) VALUES (1, 2)",
		"INSERT INTO t (k, c) VALUES (2, 1)", "INSERT INTO t (k, st) VALUES (3, 1)",
		"INSERT INTO u (k, v) VALUES (1, 1)",
	} {
		mustQuery(t, p, s, text)
	}
	for _, x := range []struct {
		text string
		size int32
		want []int32 // rows of each page
	}{
		{"SELECT k, c FROM t GROUP BY k, c", 2, []int32{2, 2, 0}},
		{"SELECT k, c FROM t GROUP BY k, c", 3, []int32{3, 1}},
		{"SELECT k, c FROM t GROUP BY k, c LIMIT 4", 2, []int32{2, 2}},
		{"SELECT k, count(*) FROM t GROUP BY k", 3, []int32{3, 0}},
		{"SELECT k, c FROM t WHERE k = 1 GROUP BY k, c", 2, []int32{2, 0}},
		{"SELECT k, c FROM t WHERE k IN (1, 9) GROUP BY k, c", 2, []int32{2, 0}},
		{"SELECT k, c FROM t WHERE k = 1 GROUP BY k, c PER PARTITION LIMIT 2", 1, []int32{1, 1}},
		{"SELECT k, c FROM t WHERE k = 1 GROUP BY k, c PER PARTITION LIMIT 1", 1, []int32{1}},
		{"SELECT k, c FROM t GROUP BY k, c PER PARTITION LIMIT 1", 3, []int32{3, 0}},
		{"SELECT k, st FROM t WHERE k = 3 GROUP BY k", 1, []int32{1}},
		{"SELECT k, v FROM u WHERE k = 1 GROUP BY k", 1, []int32{1}},
		{"SELECT k, count(*) FROM t WHERE k = 9 GROUP BY k", 1, []int32{0}},
		{"SELECT DISTINCT k FROM t WHERE token(k) = token(1) GROUP BY k", 1, []int32{1, 0}},
		{"SELECT DISTINCT k FROM t WHERE k IN (1, 2)", 1, []int32{1, 1}},
		{"SELECT DISTINCT k FROM t WHERE k IN (1, 9)", 1, []int32{1, 0}},
		{"SELECT k, c FROM t WHERE k IN (1, 2) PER PARTITION LIMIT 1", 2, []int32{2}},
		{"SELECT k, c FROM t WHERE k IN (1, 2)", 3, []int32{3, 0}},
		{"SELECT k, c FROM t WHERE k IN (1, 2) PER PARTITION LIMIT 2", 3, []int32{3, 0}},
		{"SELECT k FROM u WHERE k = 1 AND v = 1 ALLOW FILTERING", 1, []int32{1}},
	} {
		var got []int32
		params := &Params{PageSize: x.size}
		for len(got) < 10 {
			r, err := p.Query(at(ring.One), s, x.text, params)
			if err != nil {
				t.Fatalf("%s: %v", x.text, err)
			}
			got = append(got, r.RowCount)
			if params.PagingState = r.PagingState; r.PagingState == nil {
				break
			}
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%s in pages of %d: rows %d, want %d", x.text, x.size, got, x.want)
		}
	}
}

package query

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
)

// newFragmentsProcessor returns a Processor whose own storage is all of the storage.
func newFragmentsProcessor(t testing.TB, definitions ...string) (*Processor, *Session) {
	store := &modelStore{}
	return newProcessorWith(t, store, func(o *Options) {
		o.Stored = func(cmd *row.ReadCommand) ([]byte, error) { return store.table(cmd.Table).Read(cmd), nil }
	}, definitions...)
}

func TestMutationFragments(t *testing.T) {
	datadriven.Walk(t, "testdata/fragments", func(t *testing.T, path string) {
		p, s := newFragmentsProcessor(t)
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, text := range strings.Split(d.Input, "\n") {
				out.WriteString(runStatement(p, s, text))
			}
			return out.String()
		})
	})
}

// TestMutationFragmentsByPages checks that pages of any size contain the same fragments in the same order, for
// partitions larger than one command, with range tombstones that span pages.
func TestMutationFragmentsByPages(t *testing.T) {
	p, s := newFragmentsProcessor(t, "CREATE TABLE t (p int, c int, d int, v int, s int STATIC, PRIMARY KEY (p, c, d))")
	for k := range 2 {
		for c := range 5 + 25*k {
			for d := range 40 {
				mustQuery(t, p, s, fmt.Sprintf("INSERT INTO t (p, c, d, v) VALUES (%d, %d, %d, 1) USING TIMESTAMP 2",
					k, c, d))
			}
			mustQuery(t, p, s, fmt.Sprintf("DELETE FROM t USING TIMESTAMP 1 WHERE p = %d AND c = %d AND d > 3 AND d "+
				"<= 30", k, c))
		}
		mustQuery(t, p, s, fmt.Sprintf("DELETE FROM t USING TIMESTAMP %d WHERE p = %d AND c > 3", k, k))
	}
	mustQuery(t, p, s, "INSERT INTO t (p, s) VALUES (7, 1)")
	for _, text := range []string{"SELECT * FROM MUTATION_FRAGMENTS(t)",
		"SELECT * FROM MUTATION_FRAGMENTS(t) WHERE p = 1",
		"SELECT * FROM MUTATION_FRAGMENTS(t) WHERE partition_region = 3 ALLOW FILTERING",
		"SELECT * FROM MUTATION_FRAGMENTS(t) WHERE p = 1 AND mutation_source = 'storage' AND partition_region = 2 " +
			"AND c >= 5"} {
		whole := pagesOf(t, p, s, text, 0)
		if strings.Count(whole, "\n") < 3 {
			t.Errorf("%s: only\n%s", text, whole)
		}
		for _, size := range []int32{30, 400} {
			if got := pagesOf(t, p, s, text, size); got != whole {
				t.Errorf("%s: pages of %d differ:\n%s\nwant:\n%s", text, size, firstDifference(got, whole), whole[:200])
			}
		}
	}
	other := &Params{PageSize: 3}
	first, err := p.Query(at(ring.One), s, "SELECT * FROM MUTATION_FRAGMENTS(t)", other)
	if err != nil {
		t.Fatal(err)
	}
	other.PagingState = append([]byte{}, first.PagingState...)
	other.PagingState[len(other.PagingState)-1] ^= 1
	if _, err := p.Query(at(ring.One), s, "SELECT * FROM MUTATION_FRAGMENTS(t)", other); err == nil ||
		!strings.Contains(err.Error(), "Moving between") {
		t.Errorf("a paging state of another node: %v", err)
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d: %s\ninstead of %s", i, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines instead of %d", len(x), len(y))
}

// pagesOf returns the rows of all pages.
func pagesOf(t *testing.T, p *Processor, s *Session, text string, size int32) string {
	t.Helper()
	var out strings.Builder
	params := &Params{PageSize: size}
	for {
		r, err := p.Query(at(ring.One), s, text, params)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		c := wire.NewCursor(r.Rows)
		for range r.RowCount {
			for _, column := range r.Metadata.Columns {
				out.Write(column.Type.AppendText(nil, c.Bytes()))
				out.WriteByte('|')
			}
			out.WriteByte('\n')
		}
		if r.PagingState == nil {
			return out.String()
		}
		params.PagingState = append([]byte{}, r.PagingState...)
		r.Release()
	}
}

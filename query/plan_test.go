package query

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/cql"
	"cqld/query/operation"
	"cqld/query/restriction"
	"cqld/query/term"
	"cqld/row"
)

// TestPlans checks the plans of statements: the keys, tokens and slices to be read or written, and the remaining filters, groups and
// sorts.
func TestPlans(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{},
		"CREATE TABLE t (a int, b int, c int, d text, e int, v int, l list<int>, m map<text, int>, s int STATIC, "+
			"PRIMARY KEY ((a, b), c, d, e)) WITH CLUSTERING ORDER BY (c ASC, d DESC, e ASC)")
	datadriven.RunTest(t, "testdata/plan.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, text := range strings.Split(d.Input, "\n") {
			stmt, err := cql.Parse(text)
			if err != nil {
				return err.Error() + "\n"
			}
			pl, err := p.compile(p.o.View.Schema(), s.Keyspace, text, stmt)
			if err != nil {
				out.WriteString(errorText(err))
				continue
			}
			out.WriteString(explain(t, p, pl))
		}
		return out.String()
	})
}

func explain(t *testing.T, p *Processor, pl *plan) string {
	t.Helper()
	var out strings.Builder
	sc := &term.Scope{Env: &environment{p: p}}
	switch {
	case pl.selectPlan != nil:
		sp := pl.selectPlan
		explainWhere(t, &out, sp.where, sc)
		for _, columns := range sp.where.FilterColumns() {
			fmt.Fprintf(&out, "filter on %s\n", restriction.ColumnNames(columns))
		}
		flags := map[string]bool{"single row": sp.single, "reversed": sp.reversed, "distinct": sp.distinct, "sort in memory": sp.order != nil,
			"partitions without rows count": sp.staticCounts, "plain columns": sp.selection.Plain != nil}
		for _, name := range []string{"single row", "reversed", "distinct", "sort in memory", "partitions without rows count", "plain columns"} {
			if flags[name] {
				out.WriteString(name + "\n")
			}
		}
		if sp.aggregates() {
			fmt.Fprintf(&out, "groups by %d clustering columns, %d aggregations\n", len(sp.groups), len(sp.selection.Aggregates))
		}
	case pl.modification != nil:
		m := pl.modification
		explainWhere(t, &out, m.where, sc)
		for _, o := range append(append([]operation.Operation{}, m.static...), m.regular...) {
			reads := ""
			if o.Reads() {
				reads = ", reads before it writes"
			}
			fmt.Fprintf(&out, "%s %s%s\n", strings.TrimPrefix(fmt.Sprintf("%T", o), "*operation."), o.Column().Name, reads)
		}
	}
	return out.String()
}

func explainWhere(t *testing.T, out *strings.Builder, rs *restriction.Set, sc *term.Scope) {
	t.Helper()
	if rs.KeyRange {
		tokens, empty, err := rs.Tokens(sc)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(out, "tokens %s", tokens)
		if empty {
			out.WriteString(", none")
		}
		out.WriteByte('\n')
	} else {
		keys, err := rs.PartitionKeys(sc)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			fmt.Fprintf(out, "partition %x\n", k.Bytes)
		}
	}
	in, err := rs.Slices(sc)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range in {
		fmt.Fprintf(out, "slice [%x, %x)\n", s.Start, s.End)
		if i > 0 && !disjoint(in[i-1], s) {
			t.Errorf("slices %v and %v are not ascending and disjoint", in[i-1], s)
		}
	}
}

func disjoint(a, b row.Slice) bool {
	return a.End != nil && string(a.End) <= string(b.Start)
}

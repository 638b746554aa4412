package read

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/cql"
	"cqld/query/execution"
	"cqld/query/function"
	"cqld/query/restriction"
	"cqld/query/term"
	"cqld/query/testschema"
	"cqld/row"
)

// TestPlans checks the plans of SELECTs: the keys, tokens and slices to be read, and the remaining filters, groups and
// sorts.
func TestPlans(t *testing.T) {
	s := testschema.New(t, "CREATE TABLE t (a int, b int, c int, d text, e int, v int, l list<int>, m map<text, "+
		"int>, s int STATIC, "+
		"PRIMARY KEY ((a, b), c, d, e)) WITH CLUSTERING ORDER BY (c ASC, d DESC, e ASC)")
	reader := New(Options{Services: &execution.Services{}})
	datadriven.RunTest(t, "testdata/plan.txt", func(t *testing.T, d *datadriven.TestData) string {
		stmt, err := cql.Parse(d.Input)
		if err != nil {
			return err.Error() + "\n"
		}
		plan, err := reader.Compile(&term.Compiler{Schema: s, Functions: function.New(), Keyspace: "ks",
			Table: s.Table("ks", "t")},
			stmt.(*cql.Select))
		if err != nil {
			return err.Error() + "\n"
		}
		return explain(t, plan)
	})
}

func explain(t *testing.T, p *Plan) string {
	t.Helper()
	var out strings.Builder
	explainWhere(t, &out, p.where)
	for _, columns := range p.where.FilterColumns() {
		fmt.Fprintf(&out, "filter on %s\n", restriction.ColumnNames(columns))
	}
	flags := map[string]bool{"single row": p.single, "reversed": p.reversed, "distinct": p.distinct,
		"sort in memory":                p.order != nil,
		"partitions without rows count": p.staticCounts, "plain columns": p.selection.Plain != nil}
	for _, name := range []string{"single row", "reversed", "distinct", "sort in memory",
		"partitions without rows count", "plain columns"} {
		if flags[name] {
			out.WriteString(name + "\n")
		}
	}
	if p.aggregates() {
		fmt.Fprintf(&out, "groups by %d clustering columns, %d aggregations\n", len(p.groups),
			len(p.selection.Aggregates))
	}
	return out.String()
}

func explainWhere(t *testing.T, out *strings.Builder, rs *restriction.Set) {
	t.Helper()
	sc := &term.Scope{Env: &execution.Environment{}}
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

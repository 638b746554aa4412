package write

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/cql"
	"cqld/query/execution"
	"cqld/query/function"
	"cqld/query/term"
	"cqld/query/testschema"
)

// TestPlans checks the plans of statements that write: the keys and slices to be written, and the operations.
func TestPlans(t *testing.T) {
	s := testschema.New(t, "CREATE TABLE t (a int, b int, c int, d text, e int, v int, l list<int>, m map<text, "+
		"int>, s int STATIC, "+
		"PRIMARY KEY ((a, b), c, d, e)) WITH CLUSTERING ORDER BY (c ASC, d DESC, e ASC)")
	writer := New(Options{Services: &execution.Services{}})
	datadriven.RunTest(t, "testdata/plan.txt", func(t *testing.T, d *datadriven.TestData) string {
		stmt, err := cql.Parse(d.Input)
		if err != nil {
			return err.Error() + "\n"
		}
		m, err := writer.Compile(&term.Compiler{Schema: s, Functions: function.New(), Keyspace: "ks",
			Table: s.Table("ks", "t")}, stmt)
		if err != nil {
			return err.Error() + "\n"
		}
		return explain(t, m)
	})
}

func explain(t *testing.T, m *Modification) string {
	t.Helper()
	var out strings.Builder
	sc := &term.Scope{Env: &execution.Environment{}}
	keys, err := m.where.PartitionKeys(sc)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		fmt.Fprintf(&out, "partition %x\n", k.Bytes)
	}
	in, err := m.where.Slices(sc)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range in {
		fmt.Fprintf(&out, "slice [%x, %x)\n", s.Start, s.End)
	}
	for _, o := range slices.Concat(m.static, m.regular) {
		reads := ""
		if o.Reads() {
			reads = ", reads before it writes"
		}
		fmt.Fprintf(&out, "%s %s%s\n", strings.TrimPrefix(fmt.Sprintf("%T", o), "*write."), o.Column().Name, reads)
	}
	return out.String()
}

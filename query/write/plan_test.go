package write

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/cql"
	"cqld/query/definition"
	"cqld/query/execution"
	"cqld/query/function"
	"cqld/query/term"
	"cqld/ring"
	"cqld/schema"
)

// TestPlans checks the plans of statements that write: the keys and slices to be written, and the operations.
func TestPlans(t *testing.T) {
	s, of := table(t, "t", "CREATE TABLE t (a int, b int, c int, d text, e int, v int, l list<int>, m map<text, "+
		"int>, s int STATIC, "+
		"PRIMARY KEY ((a, b), c, d, e)) WITH CLUSTERING ORDER BY (c ASC, d DESC, e ASC)")
	writer := New(Options{Services: &execution.Services{}})
	datadriven.RunTest(t, "testdata/plan.txt", func(t *testing.T, d *datadriven.TestData) string {
		stmt, err := cql.Parse(d.Input)
		if err != nil {
			return err.Error() + "\n"
		}
		m, err := writer.Compile(&term.Compiler{Schema: s, Functions: function.New(), Keyspace: "ks", Table: of}, stmt)
		if err != nil {
			return err.Error() + "\n"
		}
		return explain(t, m)
	})
}

// table returns a schema with a table, which definition creates.
func table(t *testing.T, name, definitionText string) (*schema.Schema, *schema.Table) {
	t.Helper()
	s := schema.Initial()
	for _, text := range []string{"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', " +
		"'replication_factor': 1}", definitionText} {
		stmt, err := cql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		d := &definition.Definer{Schema: s, Topology: ring.NewTopology(1, nil), Keyspace: "ks",
			Functions: function.New(), NewID: func() schema.UUID { return schema.UUID{1} },
			NowMicros: func() int64 { return 1 }}
		def, err := d.Define(stmt)
		if err == nil {
			s, err = schema.Apply(s, def.Change)
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return s, s.Table("ks", name)
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

package selection_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/cql"
	"cqld/query/definition"
	"cqld/query/function"
	"cqld/query/selection"
	"cqld/query/term"
	"cqld/query/testschema"
)

// TestColumns checks the columns and types of results, the kinds of their selectors, the aggregations, the types of
// bind markers, and errors.
func TestColumns(t *testing.T) {
	s := testschema.New(t, "CREATE TYPE u (x int, y frozen<list<text>>)",
		"CREATE TABLE t (a int, b text, v bigint, d decimal, ts timestamp, l list<int>, m map<text, int>, "+
			"f frozen<u>, w vector<float, 2>, id timeuuid, \"Upper\" int, s int STATIC, PRIMARY KEY (a, b))")
	datadriven.RunTest(t, "testdata/columns.txt", func(t *testing.T, d *datadriven.TestData) string {
		stmt, err := cql.Parse("SELECT " + d.Input + " FROM t")
		if err != nil {
			return fmt.Sprintf("%T: %v\n", err, err)
		}
		c := &term.Compiler{Schema: s, Functions: function.New(), ResolveType: definition.ResolveType, Keyspace: "ks",
			Table: s.Table("ks", "t")}
		x, err := selection.Compile(c, stmt.(*cql.Select))
		if err != nil {
			return fmt.Sprintf("%T: %v\n", err, err)
		}
		var out strings.Builder
		for i, column := range x.Columns {
			kind := strings.TrimPrefix(fmt.Sprintf("%T", x.Selectors[i]), "*selection.")
			fmt.Fprintf(&out, "%s.%s %q %s: %s\n", column.Keyspace, column.Table, column.Name, column.Type, kind)
		}
		for _, a := range x.Aggregates {
			fmt.Fprintf(&out, "aggregation %s of %d arguments\n", a.Function.Qualified(), len(a.Args))
		}
		for _, m := range c.Markers {
			fmt.Fprintf(&out, "marker %q %s\n", m.Spec.Name, m.Spec.Type)
		}
		if x.Plain != nil {
			fmt.Fprintf(&out, "%d plain columns\n", len(x.Plain))
		}
		return out.String()
	})
}

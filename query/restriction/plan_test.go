package restriction_test

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
	"cqld/schema"
)

// TestPlans checks how WHERE is planned in SELECT, UPDATE and DELETE: partitions, slices of clusterings, filters, the
// chosen index, the access paths, and errors. The table k has indexes; t has none.
func TestPlans(t *testing.T) {
	s := testschema.New(t,
		"CREATE TABLE t (a int, b int, c int, d text, v int, l list<int>, m map<text, int>, s int STATIC, "+
			"PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c ASC, d DESC)",
		"CREATE TABLE k (a int, c int, v int, w int, m map<text, int>, PRIMARY KEY (a, c))",
		"CREATE CUSTOM INDEX kv ON k (v) USING 'sai'",
		"CREATE CUSTOM INDEX kw ON k (w) USING 'sai'",
		"CREATE CUSTOM INDEX km ON k (entries(m)) USING 'sai'")
	datadriven.RunTest(t, "testdata/plan.txt", func(t *testing.T, d *datadriven.TestData) string {
		stmt, err := cql.Parse(d.Input)
		if err != nil {
			return err.Error() + "\n"
		}
		out, err := plan(s, stmt)
		if err != nil {
			return fmt.Sprintf("%s%T: %v\n", out, err, err)
		}
		return out
	})
}

// plan compiles the WHERE of a statement and describes the result.
func plan(s *schema.Schema, stmt cql.Statement) (string, error) {
	var name cql.QualifiedName
	var where []cql.Relation
	var o restriction.Options
	switch stmt := stmt.(type) {
	case *cql.Select:
		name, where = stmt.Table, stmt.Where
		o = restriction.Options{Statement: restriction.Select, AllowFiltering: stmt.AllowFiltering}
	case *cql.Update:
		name, where, o.Statement = stmt.Table, stmt.Where, restriction.Update
	case *cql.Delete:
		name, where, o.Statement = stmt.Table, stmt.Where, restriction.Delete
	}
	table := s.Table("ks", name.Name)
	rs, err := restriction.Compile(&term.Compiler{Schema: s, Functions: function.New(), Keyspace: "ks", Table: table},
		where, o)
	if err == nil && o.Statement == restriction.Select {
		err = rs.CheckFiltering(o.AllowFiltering)
	}
	if err != nil {
		return "", err
	}
	return describe(table, rs)
}

// describe evaluates restrictions without bound values.
func describe(table *schema.Table, rs *restriction.Set) (string, error) {
	var out strings.Builder
	sc := &term.Scope{Env: &execution.Environment{}}
	if rs.KeyRange {
		tokens, empty, err := rs.Tokens(sc)
		if err != nil {
			return out.String(), err
		}
		fmt.Fprintf(&out, "tokens %s, none %t\n", tokens, empty)
	} else {
		keys, err := rs.PartitionKeys(sc)
		if err != nil {
			return out.String(), err
		}
		for _, k := range keys {
			fmt.Fprintf(&out, "partition %x\n", k.Bytes)
		}
	}
	in, err := rs.Slices(sc)
	if err != nil {
		return out.String(), err
	}
	for _, s := range in {
		fmt.Fprintf(&out, "slice [%x, %x)\n", s.Start, s.End)
	}
	filters, err := rs.Filters(sc, nil)
	if err != nil {
		return out.String(), err
	}
	for i, columns := range rs.FilterColumns() {
		fmt.Fprintf(&out, "filter %d of %d on %s\n", i+1, len(filters), restriction.ColumnNames(columns))
	}
	choice, err := rs.ChooseIndex(sc, nil)
	if err != nil {
		return out.String(), err
	}
	for _, terms := range choice.Terms {
		fmt.Fprintf(&out, "index %s [%x, %x)\n", choice.Index.Name, terms.Start, terms.End)
	}
	for _, b := range choice.Union {
		fmt.Fprintf(&out, "or index %s, %d intervals\n", b.Index.Name, len(b.Terms))
	}
	for _, p := range restriction.AccessPaths(table, rs, false, &choice) {
		fmt.Fprintf(&out, "path %s, usable %t: %s\n", p.Kind, p.Usable, p.Reason)
	}
	return out.String(), nil
}

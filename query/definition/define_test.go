package definition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/cql"
	"cqld/query/definition"
	"cqld/query/testschema"
	"cqld/ring"
	"cqld/schema"
)

// TestDefinitions executes statements in sequence, and checks their events, warnings and errors, and the lines of
// DESCRIBE KEYSPACE that they add (+) and remove (-).
func TestDefinitions(t *testing.T) {
	s := testschema.New(t)
	ids := byte(0)
	datadriven.RunTest(t, "testdata/definitions.txt", func(t *testing.T, d *datadriven.TestData) string {
		stmt, err := cql.Parse(d.Input)
		if err != nil {
			return fmt.Sprintf("%T: %v\n", err, err)
		}
		definer := testschema.Definer(s)
		definer.NewID = func() schema.UUID {
			ids++
			return schema.UUID{ids}
		}
		def, err := definer.Define(stmt)
		next := s
		if err == nil && def.Change != nil {
			next, err = schema.Apply(s, def.Change)
		}
		if err != nil {
			return fmt.Sprintf("%T: %v\n", err, err)
		}
		if def.Change == nil || next == s {
			return "no change\n"
		}
		var out strings.Builder
		e := def.Event
		fmt.Fprintf(&out, "%s %s %s %q %v\n", e.Change, e.Target, e.Keyspace, e.Name, e.Args)
		for _, w := range def.Warnings {
			fmt.Fprintf(&out, "warning: %s\n", w)
		}
		before, after := lines(t, s), lines(t, next)
		for _, l := range before {
			if !slices.Contains(after, l) {
				fmt.Fprintf(&out, "- %s\n", l)
			}
		}
		for _, l := range after {
			if !slices.Contains(before, l) {
				fmt.Fprintf(&out, "+ %s\n", l)
			}
		}
		s = next
		return out.String()
	})
}

// lines returns the lines of DESCRIBE KEYSPACE ks, or none if the keyspace does not exist.
func lines(t *testing.T, s *schema.Schema) (out []string) {
	t.Helper()
	if s.Keyspace("ks") == nil {
		return nil
	}
	d := &definition.Describer{Schema: s, Topology: ring.NewTopology(1, nil)}
	_, rows, _, err := d.Describe(&cql.Describe{Kind: cql.DescribeKeyspace, Name: cql.QualifiedName{Name: "ks"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for l := range strings.SplitSeq(string(row[3]), "\n") {
			if l = strings.TrimSpace(l); l != "" {
				out = append(out, l)
			}
		}
	}
	return out
}

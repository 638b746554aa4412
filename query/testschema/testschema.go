// Package testschema defines schemas by CQL statements, for the tests of packages under query.
//
// It proposes nothing to a cluster: it converts statements with query/definition and applies the changes one after the
// other.
package testschema

import (
	"testing"

	"cqld/cql"
	"cqld/query/definition"
	"cqld/query/function"
	"cqld/ring"
	"cqld/schema"
)

// New returns a schema with the keyspace ks and the result of statements, whose unqualified names are in ks. A
// rejected statement fails the test. Ids and times are the same in each run.
func New(t testing.TB, statements ...string) *schema.Schema {
	t.Helper()
	s := schema.Initial()
	ids := byte(0)
	for _, text := range append([]string{"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', " +
		"'replication_factor': 1}"}, statements...) {
		stmt, err := cql.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		d := Definer(s)
		d.NewID = func() schema.UUID {
			ids++
			return schema.UUID{ids}
		}
		def, err := d.Define(stmt)
		if err == nil {
			s, err = schema.Apply(s, def.Change)
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return s
}

// Definer returns a converter of statements on s for a client with all permissions.
func Definer(s *schema.Schema) *definition.Definer {
	return &definition.Definer{Schema: s, Topology: ring.NewTopology(1, nil), Keyspace: "ks", Functions: function.New(),
		Masking: true, NewID: func() schema.UUID { return schema.UUID{1} }, NowMicros: func() int64 { return 1 }}
}

// Package testcluster provides what the tests of several packages need of a cluster: a catalog, and the requests of a
// coordinator.
//
// Tests of one package should not import the test code of another, so what several of them need is here. It has no
// cluster of its own: package scenario runs nodes.
package testcluster

import (
	"testing"

	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// Catalog applies changes to an empty catalog. A refused change fails the test. The changes are applied in order; each
// sees the ones before it. System keyspaces are missing.
func Catalog(t testing.TB, changes ...schema.Change) *schema.Schema {
	t.Helper()
	s := schema.Empty()
	for _, c := range changes {
		var err error
		if s, err = schema.Apply(s, c); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Columns returns the columns k (partition key), c (clustering), s (static) and v (regular). The keys are texts, s and
// v are of type values.
func Columns(values *types.Type) []schema.ColumnSpec {
	text := types.Native(types.Text)
	return []schema.ColumnSpec{
		{Name: "k", Kind: schema.PartitionKey, Type: text},
		{Name: "c", Kind: schema.Clustering, Type: text},
		{Name: "s", Kind: schema.Static, Type: values},
		{Name: "v", Kind: schema.Regular, Type: values},
	}
}

// KeyOnly returns the changes that create table ks.t with the only column k, a text, and keyspace ks with one replica.
func KeyOnly() []schema.Change {
	return []schema.Change{
		&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: 1}},
		&schema.CreateTable{Keyspace: "ks", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{
				{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Text)},
			}},
	}
}

package storage

import (
	"testing"

	"cqld/row"
)

// Rows inserted with collections have a deletion for each collection, which INSERT writes before the elements. As in
// Cassandra, they do not count as tombstones: a read of 1,500 such rows returns no warning.
func TestInsertedCollectionsAreNoTombstones(t *testing.T) {
	e := openTest(t, Options{Sync: SyncNone})
	defer e.Close()
	write := func(key string, change func(*row.Row)) {
		mustApply(t, e, mutate(key, func(m *row.Mutation) {
			for i := range 1500 {
				r := row.NewRow()
				r.Clustering = clusteringOf(i)
				change(r)
				m.AddRow(r)
			}
		}))
		if _, err := e.Read(nil, readKey(key)); err != nil {
			t.Fatal(err)
		}
	}
	deletion := row.Deletion{Timestamp: 4, LocalTime: 1_000_000}
	write("inserted", func(r *row.Row) {
		r.Liveness.Timestamp = 5
		r.Complex = []row.ComplexDeletion{{Column: 3, Deletion: deletion}, {Column: 4, Deletion: deletion}}
		r.Cells = []row.Cell{{Column: 3, Path: []byte("a"), Timestamp: 5, Value: []byte("x")}}
	})
	if n := e.Metrics().TombstoneWarnings; n != 0 {
		t.Errorf("%d warnings of inserted rows", n)
	}
	write("deleted", func(r *row.Row) { r.Complex = []row.ComplexDeletion{{Column: 3, Deletion: deletion}} })
	if n := e.Metrics().TombstoneWarnings; n != 1 {
		t.Errorf("%d warnings of deleted collections", n)
	}
}

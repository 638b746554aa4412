package batchlog

import (
	"testing"

	"cqld/coordinator"
	"cqld/row"
)

// FuzzBatch decodes arbitrary bytes as a stored batch: they are refused, or can be encoded again.
func FuzzBatch(f *testing.F) {
	m, r := &row.Mutation{}, row.NewRow()
	m.Reset(7, row.NewPartitionKey([]byte("k")))
	r.Clustering, r.Cells = []byte("a"), []row.Cell{{Column: 1, Value: []byte("one")}, {Column: 2, Value: []byte("two")}}
	m.AddRow(r)
	f.Add(appendBatch(nil, 5, 6, []*row.Mutation{m}))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, err := decodeBatch(coordinator.RequestID{}, b)
		if err != nil {
			return
		}
		again, err := decodeBatch(coordinator.RequestID{}, appendBatch(nil, batch.created, batch.delay, batch.mutations))
		if err != nil || len(again.mutations) != len(batch.mutations) {
			t.Errorf("%+v became %+v: %v", batch, again, err)
		}
	})
}

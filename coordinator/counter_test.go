package coordinator

import (
	"testing"

	"cqld/row"
)

// FuzzBatch: whatever is kept as a batch, reading it says so or gives what can be written again.
func FuzzBatch(f *testing.F) {
	m, r := &row.Mutation{}, row.NewRow()
	m.Reset(7, row.NewPartitionKey([]byte("k")))
	r.Clustering, r.Cells = []byte("a"), []row.Cell{{Column: 1, Value: []byte("one")}, {Column: 2, Value: []byte("two")}}
	m.AddRow(r)
	f.Add(appendBatch(nil, 5, 6, []*row.Mutation{m}))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, err := decodeBatch(RequestID{}, b)
		if err != nil {
			return
		}
		again, err := decodeBatch(RequestID{}, appendBatch(nil, batch.Created, batch.Delay, batch.Mutations))
		if err != nil || len(again.Mutations) != len(batch.Mutations) {
			t.Errorf("%+v became %+v: %v", batch, again, err)
		}
	})
}

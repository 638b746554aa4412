package batchlog

import (
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/testcluster"
)

// catalogView is a view that has a schema only.
type catalogView struct {
	coordinator.View
	schema *schema.Schema
}

// Schema implements coordinator.View.
func (v catalogView) Schema() *schema.Schema { return v.schema }

// TestExpiredBatchNamesItsTables checks that the error of an expired batch names the tables to repair, each once.
func TestExpiredBatchNamesItsTables(t *testing.T) {
	s := schema.Initial()
	for _, change := range testcluster.KeyOnly() {
		var err error
		if s, err = schema.Apply(s, change); err != nil {
			t.Fatal(err)
		}
	}
	table := s.StorageIDs()[0]
	b := new(loggedBatch)
	for _, key := range []string{"a", "b"} {
		m := new(row.Mutation)
		m.Reset(table, row.NewPartitionKey([]byte(key)))
		b.mutations = append(b.mutations, m)
	}
	l := &Log{view: catalogView{schema: s}}
	err := l.errExpired(b)
	name := s.NameOf(table)
	if strings.Count(err.Error(), name) != 1 || !strings.HasSuffix(err.Error(), "repair "+name) {
		t.Errorf("%q does not name %s once", err, name)
	}
}

// FuzzBatch decodes arbitrary bytes as a stored batch: they are refused, or can be encoded again.
func FuzzBatch(f *testing.F) {
	m, r := &row.Mutation{}, row.NewRow()
	m.Reset(7, row.NewPartitionKey([]byte("k")))
	r.Clustering, r.Cells = []byte("a"), []row.Cell{{Column: 1, Value: []byte("one")},
		{Column: 2, Value: []byte("two")}}
	m.AddRow(r)
	f.Add(appendBatch(nil, 5, 6, []*row.Mutation{m}))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, err := decodeBatch(coordinator.RequestID{}, b)
		if err != nil {
			return
		}
		again, err := decodeBatch(coordinator.RequestID{},
			appendBatch(nil, batch.created, batch.delay, batch.mutations))
		if err != nil || len(again.mutations) != len(batch.mutations) {
			t.Errorf("%+v became %+v: %v", batch, again, err)
		}
	})
}

// FuzzRecord decodes arbitrary keys and values as records: they are refused, or the batch keeps its key, and its delay
// is bounded.
func FuzzRecord(f *testing.F) {
	id := coordinator.RequestID{Node: 1, Incarnation: 2, Sequence: 3}
	key := recordKey(id, 4)
	f.Add(key[len(prefix):], appendBatch(nil, 5, time.Second, nil))
	f.Add(key[len(prefix):len(key)-8], appendBatch(nil, 5, time.Second, nil))
	f.Add([]byte{0}, []byte{0})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		h, err := decodeRecord(append([]byte(prefix), key...), value, time.Hour)
		if err != nil {
			return
		}
		if h.due < time.Hour || h.due > time.Hour+delayMax || string(h.key) != prefix+string(key) {
			t.Errorf("%x became %+v", key, h)
		}
		if len(key) == 32 && string(recordKey(h.id, h.mark)) != prefix+string(key) {
			t.Errorf("%x became %+v", key, h)
		}
	})
}

// TestRecordsWithoutAMark decodes a record of an earlier version: the creation time of its batch is its mark.
func TestRecordsWithoutAMark(t *testing.T) {
	id := coordinator.RequestID{Node: 1, Incarnation: 2, Sequence: 3}
	key, value := recordKey(id, 4), appendBatch(nil, 5, time.Second, nil)
	for _, r := range []struct {
		key  []byte
		mark int64
	}{{key, 4}, {key[:len(key)-8], 5}} {
		h, err := decodeRecord(r.key, value, 0)
		if err != nil || h.id != id || h.mark != r.mark || h.due != time.Second {
			t.Errorf("%x: %+v, %v", r.key, h, err)
		}
	}
}

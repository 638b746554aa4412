package write

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"cqld/query/invalid"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

func changedTable() *schema.Table {
	return &schema.Table{Keyspace: "k", Name: "t", PartitionKey: []*schema.Column{{Name: "a",
		Type: types.Native(types.Int)}}}
}

// mutation returns a mutation of a partition with a row of n bytes.
func testMutation(key uint32, n int) *row.Mutation {
	m := &row.Mutation{}
	m.Reset(1, row.PartitionKey{Bytes: binary.BigEndian.AppendUint32(nil, key)})
	m.AddRow(&row.Row{Clustering: []byte{1}, Cells: []row.Cell{{Column: 1, Timestamp: 1, Value: make([]byte, n)}}})
	return m
}

// TestChangeSetCombinesPartitions adds two changes of each partition, with more partitions than the linear search
// handles.
func TestChangeSetCombinesPartitions(t *testing.T) {
	var s changeSet
	const partitions = 4 * changesScanned
	for i := range 2 * partitions {
		if err := s.Add(changedTable(), testMutation(uint32(i%partitions), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Mutations) != partitions || s.Partitions(true) != partitions {
		t.Fatalf("%d mutations of %d partitions, want %d", len(s.Mutations), s.Partitions(true), partitions)
	}
	for i, m := range s.Mutations {
		if got := binary.BigEndian.Uint32(m.Key.Bytes); got != uint32(i) || m.Size() <= testMutation(0, 1).Size() {
			t.Errorf("mutation %d has the key %d and %d bytes", i, got, m.Size())
		}
	}
}

// TestChangesAreBounded adds changes of one and of many partitions up to the bounds.
func TestChangesAreBounded(t *testing.T) {
	for _, c := range []struct {
		keys uint32
		size int
		want string
	}{{1, 5 << 20, "/16777216) for keyspace: k. Top keys are: t.0"}, {1000, 5 << 20, "more than 67108864 bytes"}} {
		var s changeSet
		var err error
		for i := uint32(0); i < 20 && err == nil; i++ {
			err = s.Add(changedTable(), testMutation(i%c.keys, c.size))
		}
		var invalid *invalid.Error
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Msg, c.want) {
			t.Errorf("%d partitions: got %v, want %s", c.keys, err, c.want)
		}
	}
}

package read

import (
	"bytes"
	"slices"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// tableOf returns a table with a storage id, a name and clustering columns.
func tableOf(t *testing.T, others int, name string, masked bool, clustering ...schema.ColumnSpec) *schema.Table {
	t.Helper()
	key := schema.ColumnSpec{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Text)}
	if masked {
		key.Mask = &schema.Mask{Function: "mask_default"}
	}
	changes := []schema.Change{&schema.CreateKeyspace{Keyspace: "ks",
		Replication: ring.Replication{Class: ring.Simple, Factor: 1}}}
	for i := range others { // they take storage ids
		changes = append(changes, &schema.CreateTable{Keyspace: "ks", Table: string(rune('a' + i)),
			ID:      schema.UUID{byte(9 + i)},
			Options: schema.DefaultOptions(), Columns: []schema.ColumnSpec{key}})
	}
	changes = append(changes, &schema.CreateTable{Keyspace: "ks", Table: name, ID: schema.UUID{1},
		Options: schema.DefaultOptions(),
		Columns: append([]schema.ColumnSpec{key}, clustering...)})
	s := schema.Empty()
	for _, c := range changes {
		var err error
		if s, err = schema.Apply(s, c); err != nil {
			t.Fatal(err)
		}
	}
	return s.Table("ks", name)
}

// TestSharedPagingStates decodes the states of one cluster in another: with the same secret, for tables with the same
// name and key columns, they are accepted, whatever the storage ids and the secrets of the clusters are.
func TestSharedPagingStates(t *testing.T) {
	column := func(kind types.Kind, desc bool) schema.ColumnSpec {
		return schema.ColumnSpec{Name: "c", Kind: schema.Clustering, Type: types.Native(kind), Desc: desc}
	}
	here := pagingKeys{Cluster: []byte("this cluster"), Shared: []byte("a secret of both clusters")}
	there := pagingKeys{Cluster: []byte("the other cluster"), Shared: here.Shared}
	s := &pagingState{Remaining: 9}
	s.At.Inside, s.At.Live, s.At.Given = true, true, 3
	s.At.Key, s.At.Clustering = row.NewPartitionKey([]byte("partition")), []byte{4, 5}
	for _, masked := range []bool{false, true} {
		table := tableOf(t, 0, "t", masked, column(types.Int, false))
		b := appendPagingState(nil, here, table, s)
		same := tableOf(t, 3, "t", masked, column(types.Int, false))
		if same.StorageID == table.StorageID {
			t.Fatal("the storage ids do not differ")
		}
		if got, err := decodePagingState(b, there, same); err != nil || !bytes.Equal(got.At.Key.Bytes,
			s.At.Key.Bytes) ||
			got.Remaining != 9 {
			t.Errorf("masked %t: %+v, %v", masked, got, err)
		}
		for name, c := range map[string]struct {
			keys  pagingKeys
			table *schema.Table
		}{
			"another secret":   {pagingKeys{Cluster: here.Cluster, Shared: []byte("another secret")}, table},
			"no secret":        {pagingKeys{Cluster: here.Cluster}, table},
			"another name":     {there, tableOf(t, 0, "u", masked, column(types.Int, false))},
			"another type":     {there, tableOf(t, 0, "t", masked, column(types.Bigint, false))},
			"another order":    {there, tableOf(t, 0, "t", masked, column(types.Int, true))},
			"no clustering":    {there, tableOf(t, 0, "t", masked)},
			"secrets mixed up": {pagingKeys{Cluster: here.Shared, Shared: here.Cluster}, table},
		} {
			if _, err := decodePagingState(b, c.keys, c.table); err != errPagingState {
				t.Errorf("masked %t, %s: %v", masked, name, err)
			}
		}
		for i := range b { // no changed state is accepted
			for bit := range 8 {
				forged := slices.Clone(b)
				forged[i] ^= 1 << bit
				if _, err := decodePagingState(forged, there, same); err != errPagingState {
					t.Errorf("masked %t, byte %d, bit %d: %v", masked, i, bit, err)
				}
			}
		}
		old := appendPagingState(nil, pagingKeys{Cluster: here.Cluster}, table, s)
		if _, err := decodePagingState(old, here, table); err != nil {
			t.Errorf("a state from before the secret: %v", err)
		}
		if _, err := decodePagingState(old, there, same); err != errPagingState {
			t.Errorf("a state of one cluster in another: %v", err)
		}
	}
}

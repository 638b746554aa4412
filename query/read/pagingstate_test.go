package read

import (
	"bytes"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// newTable returns a table with a partition key, which may be masked.
func newTable(tb testing.TB, masked bool) *schema.Table {
	tb.Helper()
	key := schema.ColumnSpec{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Text)}
	if masked {
		key.Mask = &schema.Mask{Function: "mask_default"}
	}
	s := schema.Empty()
	for _, c := range []schema.Change{
		&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: 1}},
		&schema.CreateTable{Keyspace: "ks", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{key}},
	} {
		var err error
		if s, err = schema.Apply(s, c); err != nil {
			tb.Fatal(err)
		}
	}
	return s.Table("ks", "t")
}

// FuzzDecodePagingState checks that a state that is accepted is the encoding of what was decoded, and that others are
// refused.
func FuzzDecodePagingState(f *testing.F) {
	keys, table := pagingKeys{Cluster: []byte("key")}, newTable(f, false)
	f.Add(appendPagingState(nil, keys, table, &pagingState{Remaining: 7}))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := decodePagingState(b, keys, table); err == nil {
			if again := appendPagingState(nil, keys, table, s); !bytes.Equal(again, b) {
				t.Errorf("%x was taken for %x", b, again)
			}
		}
	})
}

func TestPagingStatesRoundTrip(t *testing.T) {
	keys := pagingKeys{Cluster: []byte("key")}
	for _, masked := range []bool{false, true} {
		table := newTable(t, masked)
		s := &pagingState{Remaining: 9}
		s.At.Inside, s.At.Live, s.At.Given = true, true, 3
		s.At.Key, s.At.Clustering = row.NewPartitionKey([]byte("the secret key")), []byte{4, 5}
		b := appendPagingState([]byte("before"), keys, table, s)[len("before"):]
		if bytes.Contains(b, s.At.Key.Bytes) == masked {
			t.Errorf("masked %t: the key's bytes are in the state: %x", masked, b)
		}
		got, err := decodePagingState(b, keys, table)
		if err != nil {
			t.Fatal(err)
		}
		if again := appendPagingState(nil, keys, table, got); !masked && !bytes.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
		if !bytes.Equal(got.At.Key.Bytes, s.At.Key.Bytes) || got.Remaining != 9 || !got.At.Inside || got.At.Given != 3 {
			t.Errorf("%+v", got)
		}
		if _, err := decodePagingState(b, pagingKeys{Cluster: []byte("other")}, table); err != errPagingState {
			t.Errorf("with another key: %v", err)
		}
		b[len(b)-1] ^= 1
		if _, err := decodePagingState(b, keys, table); err != errPagingState {
			t.Errorf("changed: %v", err)
		}
	}
}

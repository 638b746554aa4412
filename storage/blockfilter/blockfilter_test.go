package blockfilter

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"cqld/row"
	"cqld/schema"
	"cqld/storage/rowkey"
)

// blockOf returns the property of a block with keys.
func blockOf(t *testing.T, c pebble.BlockPropertyCollector, keys [][]byte) []byte {
	t.Helper()
	for _, key := range keys {
		if err := c.AddPointKey(pebble.InternalKey{UserKey: key}, nil); err != nil {
			t.Fatal(err)
		}
	}
	prefix := []byte("scratch memory")
	out, err := c.FinishDataBlock(prefix[:0])
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(nil), out...)
}

func mayContain(t *testing.T, prop []byte, table schema.StorageID, k row.PartitionKey) bool {
	t.Helper()
	var f Filter
	f.Partition(table, k.Token)
	found, err := f.Intersects(prop)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestFiltersFindEveryPartition makes blocks of 1 to 300 partitions with headers, range tombstones and rows: each
// filter finds all of its partitions, takes 1.25 bytes for each, and denies all but a few of those that are absent.
func TestFiltersFindEveryPartition(t *testing.T) {
	const tables, absent = 3, 500
	rng := rand.New(rand.NewPCG(23, 5))
	c := NewCollector()
	wrong, asked := 0, 0
	for block := range 400 {
		type partition struct {
			table schema.StorageID
			key   row.PartitionKey
		}
		var in []partition
		var keys [][]byte
		for i := range 1 + rng.IntN(300) {
			p := partition{schema.FirstStorageID + schema.StorageID(rng.IntN(tables)),
				row.NewPartitionKey(fmt.Append(nil, block, i))}
			in = append(in, p)
			prefix := rowkey.AppendPartition(nil, p.table, p.key)
			for range 1 + rng.IntN(3) {
				kind := []row.EntryKind{row.KindHeader, row.KindRangeTombstone, row.KindRow}[rng.IntN(3)]
				keys = append(keys, rowkey.AppendSuffix(append([]byte(nil), prefix...), kind,
					[]byte{1, byte(rng.IntN(9))}, []byte{2}))
			}
		}
		prop := blockOf(t, c, keys)
		if want := (len(in)*10 + 7) / 8; len(prop) != want {
			t.Fatalf("%d partitions have a filter of %d bytes, want %d", len(in), len(prop), want)
		}
		for _, p := range in {
			if !mayContain(t, prop, p.table, p.key) {
				t.Fatalf("block %d: the filter of %d partitions denies one of them", block, len(in))
			}
		}
		for i := range absent {
			asked++
			if mayContain(t, prop, schema.FirstStorageID, row.NewPartitionKey(fmt.Append(nil, "absent", block, i))) {
				wrong++
			}
		}
	}
	if wrong > asked/50 {
		t.Errorf("%d of %d absent partitions were found", wrong, asked)
	}
}

// TestBlocksWithoutFilter shows that a block with keys that no filter answers for is always read, and that the next
// block has a filter again.
func TestBlocksWithoutFilter(t *testing.T) {
	const table = schema.FirstStorageID
	k := row.NewPartitionKey([]byte("key"))
	slice := rowkey.AppendSuffix(rowkey.AppendPartition(nil, table, k), row.KindRow, []byte{1}, nil)
	c := NewCollector()
	for _, x := range []struct {
		name string
		key  []byte
	}{
		{"row without clustering", rowkey.AppendSuffix(rowkey.AppendPartition(nil, table, k), row.KindRow, nil, nil)},
		{"key of the node", rowkey.AppendTable(nil, 0)},
		{"key of a maintainer", append(rowkey.AppendTable(nil, 0), "2 and at least fifteen bytes"...)},
		{"malformed key", []byte{1}},
	} {
		for _, keys := range [][][]byte{{x.key}, {x.key, slice}, {slice, x.key}} {
			if prop := blockOf(t, c, keys); len(prop) != 0 ||
				!mayContain(t, prop, table, row.NewPartitionKey([]byte("other"))) {
				t.Errorf("%s: a filter of %d bytes", x.name, len(prop))
			}
		}
		if prop := blockOf(t, c, [][]byte{slice}); len(prop) != 2 || !mayContain(t, prop, table, k) {
			t.Errorf("%s: the next block has a filter of %d bytes", x.name, len(prop))
		}
	}
}

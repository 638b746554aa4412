package storage

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/row"
)

// TestAbsentKeysReadNoBlock shows that reads by key, also those of conditional changes and of headers, rarely read a block of
// the last level for a key that is not stored.
func TestAbsentKeysReadNoBlock(t *testing.T) {
	const keys, tries = 2_000, 2_000
	e := openTest(t, Options{FS: vfs.NewMem(), Inline: true, Sync: SyncNone, CacheBytes: 1 << 20})
	defer e.Close()
	for i := range keys {
		m := putRow(fmt.Sprint("key", i), 0, 1, fmt.Sprintf("%0200d", i))
		if i%2 == 0 { // the table has headers, too
			header := row.NewRow()
			header.Cells = []row.Cell{{Column: 9, Timestamp: 1, Value: []byte("static")}}
			m.AddHeader(header)
		}
		mustApply(t, e, m)
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := e.CompactTable(context.Background(), testTable); err != nil {
		t.Fatal(err)
	}
	if size, err := e.TableSize(testTable); err != nil || size.Levels[6] == 0 || size.Levels[6] != size.Files {
		t.Fatalf("the rows are not in the last level: %+v, %v", size, err)
	}
	h := &Host{e: e}
	for _, x := range []struct {
		name    string
		lookUps int // of each read
		read    func(k row.PartitionKey) error
	}{
		{"read", 2, func(k row.PartitionKey) error {
			_, err := e.Read(nil, &row.ReadCommand{Table: testTable, Key: k, Slices: []row.Slice{row.ExactRow(clusteringOf(0))}})
			return err
		}},
		{"header", 1, func(k row.PartitionKey) error {
			_, err := e.Read(nil, &row.ReadCommand{Table: testTable, Key: k})
			return err
		}},
		{"newest timestamp", 2, func(k row.PartitionKey) error {
			_, err := e.Newest(&row.ReadCommand{Table: testTable, Key: k, Slices: []row.Slice{row.ExactRow(clusteringOf(0))}})
			return err
		}},
		{"probe", 2, func(k row.PartitionKey) error {
			return h.Probe(func(p *Prober) error {
				_, err := p.Read(nil, &row.ReadCommand{Table: testTable, Key: k, Slices: []row.Slice{row.ExactRow(clusteringOf(0))}})
				return err
			})
		}},
		{"stored row", 1, func(k row.PartitionKey) error {
			_, err := h.Stored(testTable, k, row.KindRow, clusteringOf(0))
			return err
		}},
	} {
		if err := x.read(row.NewPartitionKey([]byte("first"))); err != nil { // opens files
			t.Fatal(err)
		}
		before := e.Metrics().Pebble.Filter.Hits
		for i := range tries {
			if err := x.read(row.NewPartitionKey(fmt.Append(nil, "absent", i))); err != nil {
				t.Fatal(err)
			}
		}
		skipped := e.Metrics().Pebble.Filter.Hits - before
		if loaded := int64(x.lookUps*tries) - skipped; loaded > tries/20 {
			t.Errorf("%s: %d blocks for %d absent keys", x.name, loaded, tries)
		}
	}
}

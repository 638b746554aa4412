package storage

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/tier"
	"cqld/row"
	"cqld/storage/reading"
)

// TestAbsentKeysReadNoBlock checks that reads by key, including conditional changes and headers, rarely read a block of
// the last level for a key that is not stored.
func TestAbsentKeysReadNoBlock(t *testing.T) {
	tier.OneGoroutine(t)
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
	if err := e.CompactTable(context.Background(), testTable, nil); err != nil {
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
			_, err := e.Read(nil, &row.ReadCommand{Table: testTable, Key: k,
				Slices: []row.Slice{row.ExactRow(clusteringOf(0))}})
			return err
		}},
		{"header", 1, func(k row.PartitionKey) error {
			_, err := e.Read(nil, &row.ReadCommand{Table: testTable, Key: k})
			return err
		}},
		{"newest timestamp", 2, func(k row.PartitionKey) error {
			_, err := e.Newest(&row.ReadCommand{Table: testTable, Key: k,
				Slices: []row.Slice{row.ExactRow(clusteringOf(0))}})
			return err
		}},
		{"probe", 2, func(k row.PartitionKey) error {
			return h.Probe(func(p *reading.Prober) error {
				_, err := p.Read(nil, &row.ReadCommand{Table: testTable, Key: k,
					Slices: []row.Slice{row.ExactRow(clusteringOf(0))}})
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

// countingFS counts reads of files with rows.
type countingFS struct {
	vfs.FS
	reads atomic.Int64
}

func (fs *countingFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := fs.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".sst") {
		return f, err
	}
	return &countingFile{f, fs}, nil
}

type countingFile struct {
	vfs.File
	fs *countingFS
}

func (f *countingFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.reads.Add(1)
	return f.File.ReadAt(p, off)
}

// TestAbsentPartitionsReadNoBlock shows that searches for several rows, in both directions, rarely read from the disk
// in a partition that is not stored, if the filters are in the cache and the rows are not.
func TestAbsentPartitionsReadNoBlock(t *testing.T) {
	tier.OneGoroutine(t)
	const partitions, rows, tries = 2_000, 10, 1_000
	disk := &countingFS{FS: vfs.NewMem()}
	e := openTest(t, Options{
		FS: disk, Inline: true, Sync: SyncNone, CacheBytes: 3 << 20, MemTableBytes: 256 << 10, // of the cache
	})
	defer e.Close()
	for i := range partitions {
		for c := range rows {
			mustApply(t, e, putRow(fmt.Sprint("key", i), c, 1, fmt.Sprintf("%0400d", i)))
		}
	}
	header := putRow("key1", 0, 1, "x")
	header.AddHeader(row.NewRow()) // so that reads look for headers
	mustApply(t, e, header)
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := e.CompactTable(context.Background(), testTable, nil); err != nil {
		t.Fatal(err)
	}
	after := []row.Slice{{Start: clusteringOf(3)}}
	for _, x := range []struct {
		name string
		read func(k row.PartitionKey) error
	}{
		{"all rows", func(k row.PartitionKey) error {
			_, err := e.Read(nil, &row.ReadCommand{Table: testTable, Key: k, Slices: []row.Slice{row.AllRows()}})
			return err
		}},
		{"slice", func(k row.PartitionKey) error {
			_, err := e.Read(nil, &row.ReadCommand{Table: testTable, Key: k, Slices: after})
			return err
		}},
		{"reversed slice", func(k row.PartitionKey) error {
			_, err := e.Read(nil, &row.ReadCommand{Table: testTable, Key: k, Slices: after, Reversed: true})
			return err
		}},
		{"newest timestamp", func(k row.PartitionKey) error {
			_, err := e.Newest(&row.ReadCommand{Table: testTable, Key: k, Slices: after})
			return err
		}},
	} {
		reads := func(prefix string) (n int64) {
			before := disk.reads.Load()
			for i := range tries {
				if err := x.read(row.NewPartitionKey(fmt.Append(nil, prefix, i))); err != nil {
					t.Fatal(err)
				}
			}
			return disk.reads.Load() - before
		}
		reads("first") // loads indexes and filters
		if n := reads("absent"); n > tries/20 {
			t.Errorf("%s: %d reads of the disk for %d absent partitions", x.name, n, tries)
		}
		if n := reads("key"); n < tries/2 { // otherwise the rows are in the cache, and nothing was shown
			t.Errorf("%s: %d reads of the disk for %d partitions", x.name, n, tries)
		}
	}
}

// TestProbesFindEveryPartition shows that a prober, which reads many partitions with one iterator, skips no block of
// the later ones.
func TestProbesFindEveryPartition(t *testing.T) {
	const partitions = 500
	e := openTest(t, Options{FS: vfs.NewMem(), Inline: true, Sync: SyncNone, blockBytes: 512})
	defer e.Close()
	for i := range partitions {
		mustApply(t, e, putRow(fmt.Sprint("key", i), 1, 1, "value"), putRow(fmt.Sprint("key", i), 2, 1, "value"))
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	h := &Host{e: e}
	if err := h.Probe(func(p *reading.Prober) error {
		for i := range partitions {
			live, _, err := p.Alive(testTable, row.NewPartitionKey(fmt.Append(nil, "key", i)), 5, nil)
			if err != nil || !live {
				t.Fatalf("partition %d: live %v, %v", i, live, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range partitions { // the same reader, each time with another filter
		if live := rows(t, mustRead(t, e, readKey(fmt.Sprint("key", i)))); len(live) != 2 {
			t.Fatalf("partition %d has %d rows", i, len(live))
		}
	}
}

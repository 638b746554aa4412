package storage

import (
	"context"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/tier"
	"cqld/row"
)

// TestCacheHasItsSizeBesideMemTables reads more data than the block cache holds, after memtables of half its size were
// written and flushed. Pebble subtracts the memory of memtables from the cache: without a correction, none of the
// cache is left here.
func TestCacheHasItsSizeBesideMemTables(t *testing.T) {
	tier.OneGoroutine(t)
	const cache, memTable, keys, size = 8 << 20, 4 << 20, 8_000, 4_000
	e := openTest(t, Options{FS: vfs.NewMem(), Inline: true, Sync: SyncNone, CacheBytes: cache,
		MemTableBytes: memTable})
	defer e.Close()
	for i := range keys {
		mustApply(t, e, putRow(fmt.Sprint("key", i), 0, 1, incompressible(i, size)))
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := e.CompactTable(context.Background(), testTable, nil); err != nil {
		t.Fatal(err)
	}
	for i := range keys {
		cmd := &row.ReadCommand{
			Table: testTable, Key: row.NewPartitionKey(fmt.Append(nil, "key", i)),
			Slices: []row.Slice{row.ExactRow(clusteringOf(0))},
		}
		if _, err := e.Read(nil, cmd); err != nil {
			t.Fatal(err)
		}
	}
	p := e.Metrics().Pebble
	if used := p.BlockCache.Size; used < cache*7/8 || used > cache+cache/8 {
		t.Errorf("the cache has %d bytes beside memtables of %d, want about %d", used,
			p.MemTable.Size+p.MemTable.ZombieSize, cache)
	}
}

// incompressible returns a text of a size that no block compression shortens much.
func incompressible(seed, size int) string {
	b := make([]byte, size)
	x := uint64(seed)*0x9e3779b97f4a7c15 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x>>32)%95 + 32
	}
	return string(b)
}

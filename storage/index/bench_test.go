package index

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

func openBench(b *testing.B, ordered func(schema.StorageID) bool) *engine {
	return open(b, storage.Options{FS: vfs.Default, Dir: b.TempDir(), CacheBytes: 256 << 20, Sync: storage.SyncNone},
		ordered)
}

func benchKey(partition int) row.PartitionKey {
	key := make([]byte, 16)
	binary.BigEndian.PutUint64(key[8:], uint64(partition)*0x9E3779B97F4A7C15)
	return row.NewPartitionKey(key)
}

// benchMutation makes m the insert of a row of about 200 bytes.
func benchMutation(m *row.Mutation, r *row.Row, key row.PartitionKey, n int, value []byte) {
	m.Reset(testTable, key)
	clustering := r.Clustering[:0]
	r.Reset()
	r.Clustering = append(append(clustering, 0x80), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	r.Liveness.Timestamp = int64(n)
	for c := range 5 {
		r.Cells = append(r.Cells, row.Cell{Column: schema.ColumnID(3 + c), Timestamp: int64(n), Value: value})
	}
	m.AddRow(r)
}

// The next six write to one partition, to few, and to a new one each time; with and without the partition index.

func BenchmarkApplyOne(b *testing.B)        { benchApply(b, false, func(int) int { return 1 }) }
func BenchmarkApplyOneIndexed(b *testing.B) { benchApply(b, true, func(int) int { return 1 }) }
func BenchmarkApplyFew(b *testing.B)        { benchApply(b, false, func(i int) int { return i % 1000 }) }
func BenchmarkApplyFewIndexed(b *testing.B) { benchApply(b, true, func(i int) int { return i % 1000 }) }
func BenchmarkApplyNew(b *testing.B)        { benchApply(b, false, func(i int) int { return i }) }
func BenchmarkApplyNewIndexed(b *testing.B) { benchApply(b, true, func(i int) int { return i }) }

func benchApply(b *testing.B, indexed bool, partition func(int) int) {
	e := openBench(b, func(id schema.StorageID) bool { return indexed && id == testTable })
	defer e.Close()
	m, r, value := new(row.Mutation), row.NewRow(), []byte("0123456789abcdefghijklmnopqrstuvwxyz")
	ms := []*row.Mutation{m}
	var wait sync.WaitGroup
	done := func(error) { wait.Done() }
	b.ReportAllocs()
	for i := range b.N {
		benchMutation(m, r, benchKey(partition(i)), i, value)
		wait.Add(1)
		if err := e.Apply(ms, true, done); err != nil {
			b.Fatal(err)
		}
		if i%64 == 63 {
			wait.Wait()
		}
	}
	wait.Wait()
}

// BenchmarkPartitions lists 100 of 200,000 partitions, from anywhere.
func BenchmarkPartitions(b *testing.B) {
	e := openBench(b, always)
	defer e.Close()
	m, r := new(row.Mutation), row.NewRow()
	for i := range 200_000 {
		benchMutation(m, r, benchKey(i), 1, nil)
		mustQueue(b, e, m)
	}
	if err := e.Flush(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		page, err := e.Partitions(&storage.PartitionsRead{Table: testTable, From: benchKey(i).Bytes, Limit: 100,
			Now: 5})
		if err != nil || len(page.Keys) < 100 && page.More || page.Scanned > 100 {
			b.Fatal(len(page.Keys), page.Scanned, err)
		}
	}
}

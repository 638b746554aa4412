package storage

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/cputime"
	"cqld/internal/env"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/logarchive"
)

// The benchmarks' table has 5 regular columns, and 100 rows of about 200 bytes in each partition.
const (
	benchPartitions = 500
	benchRows       = 100
)

func benchKey(partition int) row.PartitionKey {
	key := make([]byte, 16)
	binary.BigEndian.PutUint64(key[8:], uint64(partition)*0x9E3779B97F4A7C15)
	return row.NewPartitionKey(key)
}

// benchValue is not changed by anyone.
var benchValue = []byte("0123456789abcdefghijklmnopqrstuvwxyz")

// benchMutation makes m the insert of a row.
func benchMutation(m *row.Mutation, r *row.Row, key row.PartitionKey, n int, timestamp int64) {
	benchMutationOf(m, r, key, n, timestamp, benchValue)
}

// benchMutationOf is benchMutation with a value of all cells.
func benchMutationOf(m *row.Mutation, r *row.Row, key row.PartitionKey, n int, timestamp int64, value []byte) {
	m.Reset(testTable, key)
	clustering := r.Clustering[:0]
	r.Reset()
	r.Clustering = append(append(clustering, 0x80), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	r.Liveness.Timestamp = timestamp
	for c := range 5 {
		r.Cells = append(r.Cells, row.Cell{Column: schema.ColumnID(3 + c), Timestamp: timestamp, Value: value})
	}
	m.AddRow(r)
}

func openBench(b testing.TB, o Options) *Engine {
	b.Helper()
	o.FS, o.Dir = vfs.Default, b.TempDir()
	o.CacheBytes = 256 << 20
	return openTest(b, o)
}

func fillBench(b testing.TB, e *Engine, headers bool) {
	b.Helper()
	m, r := new(row.Mutation), row.NewRow()
	var wait sync.WaitGroup
	for p := range benchPartitions {
		for n := range benchRows {
			benchMutation(m, r, benchKey(p), n, 1)
			wait.Add(1)
			mustTake(b, e, []*row.Mutation{m}, false, func(error) { wait.Done() })
		}
	}
	wait.Wait()
	if headers {
		m.Reset(testTable, benchKey(benchPartitions))
		header := row.NewRow()
		header.Deletion = row.Deletion{Timestamp: 1, LocalTime: 1}
		m.AddHeader(header)
		mustApply(b, e, m)
	}
}

// readBench reads all rows of fillBench.
func readBench(b testing.TB, e *Engine) {
	b.Helper()
	var page []byte
	for p := range benchPartitions {
		for n := range benchRows {
			var err error
			cmd := row.ReadCommand{Table: testTable, Now: 1, Key: benchKey(p), Slices: []row.Slice{exactRow(n)}}
			if page, err = e.Read(page[:0], &cmd); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkApply(b *testing.B) {
	benchApply(b, Options{Sync: SyncNone}, func(int) row.PartitionKey { return benchKey(1) })
}

// BenchmarkApplyArchived is BenchmarkApply with stamps and kept logs. None of them is read.
func BenchmarkApplyArchived(b *testing.B) {
	hlc := env.NewHLC(newTestClock(), time.Minute)
	benchApply(b, Options{Sync: SyncNone, Archive: &logarchive.Options{Stamp: hlc.Next}},
		func(int) row.PartitionKey { return benchKey(1) })
}

func benchApply(b *testing.B, o Options, keyOf func(int) row.PartitionKey) {
	e := openBench(b, o)
	defer e.Close()
	if o.RowCacheBytes > 0 {
		fillBench(b, e, false)
		readBench(b, e)
	}
	m, r := new(row.Mutation), row.NewRow()
	ms := []*row.Mutation{m}
	var wait sync.WaitGroup
	done := func(error) { wait.Done() }
	b.ReportAllocs()
	b.ResetTimer()
	began := cputime.Process()
	for i := range b.N {
		benchMutation(m, r, keyOf(i), i, int64(i))
		wait.Add(1)
		mustTake(b, e, ms, true, done)
		if i%64 == 63 {
			wait.Wait()
		}
	}
	wait.Wait()
	b.ReportMetric(float64(cputime.Process()-began)/float64(b.N), "cpu-ns/op")
}

// BenchmarkApplyCached writes rows while the cache is full of others.
func BenchmarkApplyCached(b *testing.B) {
	benchApply(b, Options{Sync: SyncNone, RowCacheBytes: 64 << 20}, func(int) row.PartitionKey { return benchKey(1) })
}

// BenchmarkApplyDurable has as many writers waiting for the disk as its name states.
func BenchmarkApplyDurable64(b *testing.B) {
	e := openBench(b, Options{})
	defer e.Close()
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		m, r := new(row.Mutation), row.NewRow()
		key := benchKey(1)
		ms := []*row.Mutation{m}
		acknowledged := make(chan error, 1)
		done := func(err error) { acknowledged <- err }
		for i := 0; pb.Next(); i++ {
			benchMutation(m, r, key, i, int64(i))
			err := e.Apply(ms, true, done)
			if err == nil {
				err = <-acknowledged
			}
			if err != nil {
				b.Error(err)
			}
		}
	})
}

func benchRead(b *testing.B, headers, flushed bool, slice func(n int) row.Slice) {
	benchReadWith(b, Options{Sync: SyncNone, RowCacheBytes: -1}, headers, flushed, slice)
}

func benchReadWith(b *testing.B, o Options, headers, flushed bool, slice func(n int) row.Slice) {
	e := openBench(b, o)
	defer e.Close()
	fillBench(b, e, headers)
	if flushed {
		if err := e.Flush(); err != nil {
			b.Fatal(err)
		}
	}
	cmd := &row.ReadCommand{Table: testTable, Now: 1_000_000}
	var keys []row.PartitionKey
	for p := range benchPartitions {
		keys = append(keys, benchKey(p))
	}
	var rows [][]row.Slice
	for n := range benchRows {
		rows = append(rows, []row.Slice{slice(n)})
	}
	var page []byte
	var err error
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		cmd.Key, cmd.Slices = keys[i%benchPartitions], rows[i/7%benchRows]
		if page, err = e.Read(page[:0], cmd); err != nil {
			b.Fatal(err)
		}
	}
	if len(page) < 100 {
		b.Fatalf("page of %d bytes", len(page))
	}
}

func exactRow(n int) row.Slice { return row.ExactRow(clusteringOf(n)) }
func sliceOf(n int) row.Slice  { return row.SliceOf(clusteringOf(n)) }
func allRows(int) row.Slice    { return row.AllRows() }

// BenchmarkReadPointCached reads rows that the cache has, once it has read all of them.
func BenchmarkReadPointCached(b *testing.B) {
	benchReadWith(b, Options{Sync: SyncNone, RowCacheBytes: 64 << 20}, false, true, exactRow)
}

// BenchmarkReadPointOnce reads rows that a small cache does not have.
func BenchmarkReadPointOnce(b *testing.B) {
	benchReadWith(b, Options{Sync: SyncNone, RowCacheBytes: 1 << 20}, false, true, exactRow)
}

func BenchmarkReadPoint(b *testing.B)        { benchRead(b, false, true, exactRow) }
func BenchmarkReadPointMem(b *testing.B)     { benchRead(b, false, false, exactRow) }
func BenchmarkReadPointHeaders(b *testing.B) { benchRead(b, true, true, exactRow) }
func BenchmarkReadPointSlice(b *testing.B)   { benchRead(b, false, true, sliceOf) }
func BenchmarkReadSlice100(b *testing.B)     { benchRead(b, false, true, allRows) }
func BenchmarkReadSlice100Mem(b *testing.B)  { benchRead(b, false, false, allRows) }

package storage

import (
	"context"
	"encoding/binary"
	"slices"
	"sync"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/reading"
)

// BenchmarkScan reads a whole table in pages of 5000 rows, of the shapes that tables have. An operation is a row.
func BenchmarkScan(b *testing.B) {
	for _, x := range []struct {
		name                string
		rows                int // in each partition
		headers, clustering bool
	}{
		{"single", 1, false, false},
		{"single-headers", 1, true, false},
		{"clustering1", 1, false, true},
		{"clustering100", 100, false, true},
		{"clustering10-headers", 10, true, true},
	} {
		b.Run(x.name, func(b *testing.B) { benchScan(b, x.rows, x.headers, x.clustering) })
	}
}

const benchScanRows = 200_000

func benchScan(b *testing.B, rows int, headers, clustering bool) {
	e := openBench(b, Options{Sync: SyncNone})
	defer e.Close()
	m, r := new(row.Mutation), row.NewRow()
	var wait sync.WaitGroup
	var keys []row.PartitionKey
	for p := range benchScanRows / rows {
		key := make([]byte, 8)
		binary.BigEndian.PutUint64(key, uint64(p))
		keys = append(keys, row.NewPartitionKey(key))
		m.Reset(testTable, keys[p])
		if headers {
			header := row.NewRow()
			header.Cells = append(header.Cells, row.Cell{Column: schema.ColumnID(9), Timestamp: 1,
				Value: benchValue[:8]})
			m.AddHeader(header)
		}
		for n := range rows {
			r.Reset()
			if clustering {
				r.Clustering = clusteringOf(n)
			}
			r.Liveness.Timestamp = 1
			for c := range 3 {
				r.Cells = append(r.Cells, row.Cell{Column: schema.ColumnID(3 + c), Timestamp: 1, Value: benchValue[:8]})
			}
			m.AddRow(r)
		}
		wait.Add(1)
		mustTake(b, e, []*row.Mutation{m}, false, func(error) { wait.Done() })
	}
	wait.Wait()
	if err := e.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := e.CompactTable(context.Background(), testTable, nil); err != nil {
		b.Fatal(err)
	}
	slices.SortFunc(keys, row.PartitionKey.Compare)
	slice := row.AllRows()
	if !clustering {
		slice = row.ExactRow(nil)
	}
	var page []byte
	b.ResetTimer()
	b.ReportAllocs()
	for read := 0; read < b.N; {
		cmd := &row.ReadCommand{Table: testTable, Now: 1_000_000, Range: row.KeyRange{Tokens: ring.FullRange()},
			Slices: []row.Slice{slice}, Limits: row.Limits{Rows: 5000}}
		for at := 0; at < benchScanRows && read < b.N; at += 5000 {
			if at > 0 {
				cmd.Range.After = &keys[at/rows-1]
			}
			var n reading.Counted
			var err error
			if page, n, err = e.ReadCounted(page[:0], cmd); err != nil || n.Rows != 5000 {
				b.Fatal(n, err)
			}
			read += int(n.Rows)
		}
	}
}

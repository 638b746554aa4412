package write

import (
	"math/rand/v2"
	"testing"

	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// reference is Of with a map of all rows, each decoded and merged on its own.
func batchSizeReference(t *schema.Table, m *row.Mutation) int {
	size, deletions := partitionDeletionSize+rowSize, 0
	rows := map[string]*row.Row{}
	var e row.Entry
	for es := m.Entries(); es.Next(&e); {
		if e.Kind == row.KindRangeTombstone {
			deletions++
			size += rangeTombstoneSize + clusteringSize(t, e.Start) + clusteringSize(t, e.End)
			continue
		}
		r := row.NewRow()
		if row.DecodeRow(r, e.Value) != nil {
			continue
		}
		key := rowIndexKey(e.Kind, e.Start)
		if same := rows[key]; same != nil {
			rows[key] = row.NewRow()
			row.Reconcile(rows[key], same, r)
			continue
		}
		rows[key] = r
		if e.Kind == row.KindRow {
			size += rowSize + clusteringSize(t, e.Start)
		}
	}
	if deletions > 0 {
		size += rangeTombstonesSize
	}
	for _, r := range rows {
		size += cellsSize(t, r)
	}
	return size
}

func batchSizeTable() *schema.Table {
	integer, text := types.Native(types.Int), types.Native(types.Text)
	columns := []*schema.Column{{ID: 1, Name: "p", Kind: schema.PartitionKey, Type: integer},
		{ID: 2, Name: "c", Kind: schema.Clustering, Type: integer},
		{ID: 3, Name: "v", Kind: schema.Regular, Type: text},
		{ID: 4, Name: "s", Kind: schema.Static, Type: text},
		{ID: 5, Name: "l", Kind: schema.Regular, Type: types.NewList(text, false)}}
	t := &schema.Table{Keyspace: "k", Name: "t", NextColumn: 6,
		PartitionKey: columns[:1], Clustering: columns[1:2],
		Statics: columns[3:4], Regulars: []*schema.Column{columns[4], columns[2]}}
	t.Seal()
	return t
}

// TestRepeatedRowsCountOnce compares mutations of many and few rows, some changed several times, with the reference.
func TestRepeatedRowsCountOnce(t *testing.T) {
	table := batchSizeTable()
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := &row.Mutation{}
		m.Reset(9, row.NewPartitionKey([]byte("key")))
		distinct := 1 + r.IntN(3*rowListMax)
		for range r.IntN(5 * rowListMax) {
			x := row.NewRow()
			if r.IntN(2) == 0 {
				x.Liveness = row.Liveness{Timestamp: r.Int64N(5) + 1}
			}
			column := schema.ColumnID(3)
			if r.IntN(8) == 0 {
				column = 4
			} else {
				x.Clustering = table.Clustering[0].Type.AppendOrdered(nil, []byte{0, 0, 0, byte(r.IntN(distinct))},
					false)
			}
			cell := row.Cell{Column: column, Timestamp: r.Int64N(5) + 1, Value: make([]byte, r.IntN(30))}
			if column == 3 && r.IntN(3) == 0 {
				cell.Column, cell.Path = 5, []byte{byte(r.IntN(4))}
			}
			x.Cells = append(x.Cells, cell)
			x.Sort()
			if column == 4 {
				m.AddHeader(x)
			} else {
				m.AddRow(x)
			}
		}
		if got, want := batchSize(table, m), batchSizeReference(table, m); got != want {
			t.Fatalf("seed %d: %d bytes, want %d", seed, got, want)
		}
	}
}

// TestSizesAllocateLittle bounds the allocations for a mutation of one row: the row and its cells.
func TestSizesAllocateLittle(t *testing.T) {
	table := batchSizeTable()
	m := &row.Mutation{}
	m.Reset(9, row.NewPartitionKey([]byte("key")))
	x := row.NewRow()
	x.Clustering = table.Clustering[0].Type.AppendOrdered(nil, []byte{0, 0, 0, 1}, false)
	x.Cells = []row.Cell{{Column: 3, Timestamp: 1, Value: []byte("text")}}
	m.AddRow(x)
	if n := testing.AllocsPerRun(100, func() { batchSize(table, m) }); n > 3 {
		t.Errorf("%v allocations", n)
	}
}

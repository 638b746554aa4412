package storage

import (
	"fmt"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/storage/reading"
)

const stepPartitions = 500

// fillShape writes partitions with the given number of rows, and what else a shape has.
func fillShape(t *testing.T, e *Engine, rows int, clustering, statics, tombstones bool) {
	t.Helper()
	for p := range stepPartitions {
		m := new(row.Mutation)
		m.Reset(testTable, row.NewPartitionKey(fmt.Appendf(nil, "key%d", p)))
		if statics {
			header := row.NewRow()
			header.Cells = []row.Cell{{Column: 9, Timestamp: 1, Value: []byte("static")}}
			m.AddHeader(header)
		}
		if tombstones {
			m.AddRangeTombstone(row.RangeTombstone{Start: clusteringOf(1_000), End: clusteringOf(2_000),
				Deletion: row.Deletion{Timestamp: 1, LocalTime: 999_999}})
		}
		for n := range rows {
			r := row.NewRow()
			if clustering {
				r.Clustering = clusteringOf(n)
			}
			r.Liveness.Timestamp = 1
			r.Cells = []row.Cell{{Column: 3, Timestamp: 1, Value: []byte("x")}}
			m.AddRow(r)
		}
		mustApply(t, e, m)
	}
}

// TestScansStep checks that a scan of adjacent partitions seeks in almost none of them, whatever their contents.
func TestScansStep(t *testing.T) {
	for _, x := range []struct {
		name                            string
		rows                            int
		clustering, statics, tombstones bool
		slice                           row.Slice
		reversed                        bool
	}{
		{name: "no clustering", rows: 1, slice: row.ExactRow(nil)},
		{name: "no clustering, all rows", rows: 1, slice: row.AllRows()},
		{name: "clustering", rows: 3, clustering: true, slice: row.AllRows()},
		{name: "one row of each", rows: 3, clustering: true, slice: row.ExactRow(clusteringOf(1))},
		{name: "statics", rows: 2, clustering: true, statics: true, slice: row.AllRows()},
		{name: "only statics", statics: true, slice: row.AllRows()},
		{name: "range tombstones", rows: 2, clustering: true, tombstones: true, slice: row.AllRows()},
		{name: "reversed", rows: 2, clustering: true, slice: row.AllRows(), reversed: true},
		{name: "reversed with statics", rows: 1, clustering: true, statics: true, slice: row.AllRows(), reversed: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			e := openTest(t, Options{Inline: true})
			defer e.Close()
			fillShape(t, e, x.rows, x.clustering, x.statics, x.tombstones)
			for _, flushed := range []bool{false, true} {
				if flushed {
					if err := e.Flush(); err != nil {
						t.Fatal(err)
					}
				}
				before := e.Metrics().Seeks
				cmd := readAll()
				cmd.Slices, cmd.Reversed, cmd.StaticCounts = []row.Slice{x.slice}, x.reversed, x.statics && x.rows == 0
				page := mustRead(t, e, cmd)
				if got := partitionsOf(t, page); got != stepPartitions {
					t.Errorf("%d partitions", got)
				}
				if seeks := e.Metrics().Seeks - before; seeks > 10 {
					t.Errorf("%d seeks for %d partitions", seeks, stepPartitions)
				}
			}
		})
	}
}

// TestScansSeekOverLongPartitions shows that a scan that wants one row of each partition does not step over the others.
func TestScansSeekOverLongPartitions(t *testing.T) {
	e := openTest(t, Options{Inline: true})
	defer e.Close()
	fillShape(t, e, 50, true, false, false)
	before := e.Metrics()
	cmd := readAll()
	cmd.Limits.PerPartition = 1
	if got := partitionsOf(t, mustRead(t, e, cmd)); got != stepPartitions {
		t.Errorf("%d partitions", got)
	}
	after := e.Metrics()
	if seeks := after.Seeks - before.Seeks; seeks > stepPartitions+10 {
		t.Errorf("%d seeks for %d partitions", seeks, stepPartitions)
	}
}

// TestHashesAndWalksStep is TestScansStep for repairs and the builds of indexes.
func TestHashesAndWalksStep(t *testing.T) {
	e := openTest(t, Options{Inline: true})
	defer e.Close()
	fillShape(t, e, 1, true, true, true)
	before := e.Metrics().Seeks
	rows := uint64(0)
	cmd := &reading.HashCommand{Table: testTable, Tokens: ring.Range{Start: ring.MinToken, End: ring.MaxToken},
		Leaves: 1,
		Now:    1_000_000, BytesMax: 1 << 40}
	_, _, err := e.Hash(cmd, func(_ int, h reading.LeafHash) { rows += h.Rows })
	if err != nil || rows != 2*stepPartitions {
		t.Errorf("%d rows, %v", rows, err)
	}
	walked := 0
	h := &Host{e: e}
	if _, err := h.Walk(testTable, nil, 1<<20, func(row.PartitionKey) { walked++ }); err != nil ||
		walked != stepPartitions {
		t.Errorf("%d partitions, %v", walked, err)
	}
	if seeks := e.Metrics().Seeks - before; seeks > 10 {
		t.Errorf("%d seeks for %d partitions", seeks, stepPartitions)
	}
}

func partitionsOf(t *testing.T, page []byte) int {
	t.Helper()
	_, _, partitions := row.CountPage(page, 1_000_000)
	return partitions
}

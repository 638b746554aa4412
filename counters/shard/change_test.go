package shard

import (
	"errors"
	"math/rand/v2"
	"testing"

	"cqld/internal/wire"
	"cqld/row"
	"cqld/schema"
)

// adds returns an update of row clustering: additions to some columns, and a deletion.
func adds(clustering string, deletion row.Deletion, values ...int64) *row.Mutation {
	m := &row.Mutation{}
	m.Reset(7, row.NewPartitionKey([]byte("k")))
	r := row.NewRow()
	r.Clustering, r.Deletion = []byte(clustering), deletion
	for i, v := range values {
		r.Cells = append(r.Cells, row.Cell{Column: schema.ColumnID(1 + i), Value: wire.AppendInt64(nil, v)})
	}
	m.AddRow(r)
	return m
}

// sums returns the cells of a result.
func sums(t *testing.T, m *row.Mutation) (values map[string]int64, stamps map[string]int64) {
	t.Helper()
	values, stamps = map[string]int64{}, map[string]int64{}
	entries := m.Entries()
	var e row.Entry
	for entries.Next(&e) {
		var r row.Row
		if err := row.DecodeRow(&r, e.Value); err != nil {
			t.Fatal(err)
		}
		for i := range r.Cells {
			id := string(e.Start) + string(rune('0'+r.Cells[i].Column))
			values[id], stamps[id] = delta(&r.Cells[i]), r.Cells[i].Timestamp
		}
	}
	return values, stamps
}

// TestGroupedUpdatesAddUp compares updates that are led together with the sum of their additions.
func TestGroupedUpdatesAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var x Change
		want := map[string]int64{}
		for range 1 + rng.IntN(20) {
			clustering := string(rune('a' + rng.IntN(3)))
			one, two := rng.Int64N(100)-50, rng.Int64N(100)-50
			if err := x.Add(adds(clustering, row.NoDeletion(), one, two)); err != nil {
				t.Fatal(err)
			}
			want[clustering+"1"] += one
			want[clustering+"2"] += two
		}
		x.Merge()
		got, _ := sums(t, x.Result(7, row.NewPartitionKey([]byte("k")), 5, 1000))
		if len(got) != len(want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for id, v := range want {
			if got[id] != v {
				t.Errorf("%s is %d, want %d", id, got[id], v)
			}
		}
	}
}

// TestSumTimestampsIncrease shows that the timestamp of a sum is after the timestamps of the previous sum and of every
// deletion, and that deleted sums do not count.
func TestSumTimestampsIncrease(t *testing.T) {
	stored := func(stamp, value int64, deletion row.Deletion) []byte {
		w := row.NewPageWriter(nil)
		w.Partition(row.NewPartitionKey([]byte("k")), row.NewRow(), nil)
		r := row.NewRow()
		r.Clustering, r.Deletion = []byte("a"), deletion
		r.Cells = []row.Cell{
			// another node's shard
			{Column: 1, Path: shardPath(4), Timestamp: stamp + 500, Value: wire.AppendInt64(nil, 999)},
			{Column: 1, Path: shardPath(5), Timestamp: stamp, Value: wire.AppendInt64(nil, value)},
		}
		w.Row(r)
		w.EndPartition()
		return w.Finish(false)
	}
	none := row.NoDeletion()
	at := func(stamp int64) row.Deletion { return row.Deletion{Timestamp: stamp, LocalTime: 1} }
	for _, c := range []struct {
		what             string
		stamp            int64 // from the leader's clock
		page             []byte
		deletion         row.Deletion // in the update
		sum, after, most int64
	}{
		{"a clock that goes", 2000, stored(1000, 40, none), none, 42, 2000, 2000},
		{"a clock that went back", 500, stored(1000, 40, none), none, 42, 1001, 1001},
		{"a deletion on disk", 500, stored(1000, 40, at(800)), none, 42, 1001, 1001},
		{"a later deletion on disk", 500, stored(1000, 40, at(3000)), none, 2, 3001, 3001},
		{"a deletion in the update", 500, stored(1000, 40, none), at(1000), 2, 1001, 1001},
		{"an old deletion in the update", 500, stored(1000, 40, none), at(999), 42, 1001, 1001},
	} {
		var x Change
		m := adds("a", c.deletion, 2)
		if err := x.Add(m); err != nil {
			t.Fatal(err)
		}
		x.Merge()
		s, cmd := x.Scan(m, 1), row.ReadCommand{}
		if !s.Next(&cmd) || len(cmd.Slices) != 1 {
			t.Fatalf("%s: reads %+v", c.what, cmd)
		}
		if err := x.Take(c.page, s); s.More() || err != nil {
			t.Fatalf("%s: more %t, %v", c.what, s.More(), err)
		}
		values, stamps := sums(t, x.Result(7, m.Key, 5, c.stamp))
		if values["a1"] != c.sum || stamps["a1"] < c.after || stamps["a1"] > c.most {
			t.Errorf("%s: %d at %d, want %d at %d", c.what, values["a1"], stamps["a1"], c.sum, c.after)
		}
	}
}

// TestBadUpdatesAreRefused shows that invalid additions are refused.
func TestBadUpdatesAreRefused(t *testing.T) {
	for _, cell := range []row.Cell{{Column: 1, Value: []byte("short")}, {Column: 1, Tombstone: true}} {
		m, r := &row.Mutation{}, row.NewRow()
		m.Reset(7, row.NewPartitionKey([]byte("k")))
		r.Clustering, r.Cells = []byte("a"), []row.Cell{cell}
		m.AddRow(r)
		var x Change
		if err := x.Add(m); !errors.Is(err, errValue) {
			t.Errorf("%+v: %v", cell, err)
		}
	}
}

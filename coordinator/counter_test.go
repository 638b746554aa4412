package coordinator

import (
	"errors"
	"math/rand/v2"
	"testing"

	"cqld/internal/wire"
	"cqld/row"
	"cqld/schema"
)

// adds is an update of row clustering: what is added to some columns, and a deletion.
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

// sums are the cells of a result.
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
			values[id], stamps[id] = counterDelta(&r.Cells[i]), r.Cells[i].Timestamp
		}
	}
	return values, stamps
}

// TestUpdatesLedTogetherAddUp compares updates that are led together with the sum of what they add.
func TestUpdatesLedTogetherAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var x counterChange
		want := map[string]int64{}
		for range 1 + rng.IntN(20) {
			clustering := string(rune('a' + rng.IntN(3)))
			one, two := rng.Int64N(100)-50, rng.Int64N(100)-50
			if err := x.add(adds(clustering, row.NoDeletion(), one, two)); err != nil {
				t.Fatal(err)
			}
			want[clustering+"1"] += one
			want[clustering+"2"] += two
		}
		x.merge()
		got, _ := sums(t, x.result(7, row.NewPartitionKey([]byte("k")), 5, 1000))
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

// TestSumsComeAfterWhatTheyFollow: a sum is later than the one it follows and than every deletion, and
// what is deleted does not count.
func TestSumsComeAfterWhatTheyFollow(t *testing.T) {
	stored := func(stamp, value int64, deletion row.Deletion) []byte {
		w := row.NewPageWriter(nil)
		w.Partition(row.NewPartitionKey([]byte("k")), row.NewRow(), nil)
		r := row.NewRow()
		r.Clustering, r.Deletion = []byte("a"), deletion
		r.Cells = []row.Cell{
			{Column: 1, Path: shardPath(4), Timestamp: stamp + 500, Value: wire.AppendInt64(nil, 999)}, // another's shard
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
		stamp            int64 // of the leader's clock
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
		var x counterChange
		m := adds("a", c.deletion, 2)
		if err := x.add(m); err != nil {
			t.Fatal(err)
		}
		x.merge()
		if rest, err := x.take(c.page, x.command(m, 1)); rest != nil || err != nil {
			t.Fatalf("%s: %v, %v", c.what, rest, err)
		}
		values, stamps := sums(t, x.result(7, m.Key, 5, c.stamp))
		if values["a1"] != c.sum || stamps["a1"] < c.after || stamps["a1"] > c.most {
			t.Errorf("%s: %d at %d, want %d at %d", c.what, values["a1"], stamps["a1"], c.sum, c.after)
		}
	}
}

// TestBadUpdatesAreRefused: what is no addition is not counted.
func TestBadUpdatesAreRefused(t *testing.T) {
	for _, cell := range []row.Cell{{Column: 1, Value: []byte("short")}, {Column: 1, Tombstone: true}} {
		m, r := &row.Mutation{}, row.NewRow()
		m.Reset(7, row.NewPartitionKey([]byte("k")))
		r.Clustering, r.Cells = []byte("a"), []row.Cell{cell}
		m.AddRow(r)
		var x counterChange
		if err := x.add(m); !errors.Is(err, errCounterValue) {
			t.Errorf("%+v: %v", cell, err)
		}
	}
}

// TestNamesCountOnce: whatever comes how often in which order, what is entered is entered once, and
// nothing that was forgotten is entered again.
func TestNamesCountOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, limit := range []int{1, 8, 1000} {
		w := newCounterWindows(limit)
		entered := map[RequestID]int{}
		answers := 0
		asked := 5000
		for i := range asked {
			id := RequestID{Node: 1, Incarnation: uint64(rng.IntN(2)), Sequence: uint64(1 + max(0, i/3-rng.IntN(20)))}
			if done := w.enter(id, func(error) { answers++ }); done != nil {
				entered[id]++
				done(nil)
			}
		}
		for id, n := range entered {
			if n != 1 {
				t.Errorf("limit %d: %+v was entered %d times", limit, id, n)
			}
		}
		if answers != asked || len(entered) < 100 {
			t.Errorf("limit %d: %d answers to %d, %d entered", limit, answers, asked, len(entered))
		}
		for _, x := range w.windows {
			if len(x.seen) > limit {
				t.Errorf("limit %d: %d names are kept", limit, len(x.seen))
			}
		}
	}
}

// TestTheSameMessageWaitsForTheFirst: its answer is the first one's, when that is known.
func TestTheSameMessageWaitsForTheFirst(t *testing.T) {
	w := newCounterWindows(10)
	id := RequestID{Node: 1, Incarnation: 1, Sequence: 1}
	var got []error
	note := func(err error) { got = append(got, err) }
	done := w.enter(id, note)
	if w.enter(id, note) != nil || len(got) != 0 {
		t.Fatal("the second was not kept waiting")
	}
	failure := &WriteTimeout{Type: WriteCounter}
	done(failure)
	if w.enter(id, note) != nil || len(got) != 3 || !errors.Is(got[1], failure) || !errors.Is(got[2], failure) {
		t.Errorf("answers %v", got)
	}
	if w.enter(RequestID{}, note) == nil {
		t.Error("what has no name is not entered")
	}
}

// FuzzBatch: whatever is kept as a batch, reading it says so or gives what can be written again.
func FuzzBatch(f *testing.F) {
	f.Add(appendBatch(nil, 5, 6, []*row.Mutation{adds("a", row.NoDeletion(), 1, 2)}))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		batch, err := decodeBatch(RequestID{}, b)
		if err != nil {
			return
		}
		again, err := decodeBatch(RequestID{}, appendBatch(nil, batch.Created, batch.Delay, batch.Mutations))
		if err != nil || len(again.Mutations) != len(batch.Mutations) {
			t.Errorf("%+v became %+v: %v", batch, again, err)
		}
	})
}

package row

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestRestampMovesOnlyTheStamps shows that the timestamp and the one before it are replaced, and nothing else changes;
// the changed rows are those that Stamped returns.
func TestRestampMovesOnlyTheStamps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		m := &Mutation{Key: NewPartitionKey([]byte("k"))}
		rows := map[string]*Row{}
		for _, c := range []string{"a", "b", "c"} {
			r := randomRow(rng)
			r.Clustering, r.HasRangeTombstones = []byte(c), false
			rows[c] = r
			m.AddRow(r)
		}
		const stamp, to = 4, 1000
		moved, err := m.Restamp(stamp, to)
		if err != nil {
			t.Fatal(err)
		}
		cmd, some, err := m.Stamped(stamp)
		if err != nil || some != (len(cmd.Slices) > 0) {
			t.Fatalf("%v %d %v", some, len(cmd.Slices), err)
		}
		named := map[string]bool{}
		for _, s := range cmd.Slices {
			named[string(s.Start)] = true
		}
		e, es := Entry{}, moved.Entries()
		for es.Next(&e) {
			want, touched := rows[string(e.Start)].Clone(), false
			want.stamps(func(t *int64) {
				if *t == stamp || *t == stamp-1 {
					*t, touched = *t+to-stamp, true
				}
			})
			if !bytes.Equal(e.Value, encoded(&want)) {
				t.Fatalf("row %s of %+v", e.Start, want)
			}
			if named[string(e.Start)] != touched {
				t.Fatalf("row %s: named %v", e.Start, !touched)
			}
		}
		if again, err := moved.Restamp(to, stamp); err != nil || !bytes.Equal(again.entries, m.entries) {
			t.Fatalf("moved back, %x is %x: %v", m.entries, again.entries, err)
		}
	}
}

// TestStampedReturnsTimestampsOfMutation for headers, intervals and whole partitions.
func TestStampedReturnsTimestampsOfMutation(t *testing.T) {
	static := NewRow()
	static.Cells = []Cell{{Column: 1, Timestamp: 9, Value: []byte("s")}}
	deleted := NewRow()
	deleted.Deletion = Deletion{Timestamp: 10}
	for _, c := range []struct {
		what   string
		build  func(*Mutation)
		static bool
		slices int
		some   bool
	}{
		{"nothing", func(*Mutation) {}, false, 0, false},
		{"a static cell", func(m *Mutation) { m.AddHeader(static) }, true, 0, true},
		{"a partition", func(m *Mutation) { m.AddHeader(deleted) }, true, 1, true},
		{"an interval", func(m *Mutation) {
			m.AddRangeTombstone(RangeTombstone{Start: []byte("a"), End: []byte("b"), Deletion: deleted.Deletion})
		}, false, 1, true},
		{"an interval of another time", func(m *Mutation) {
			m.AddRangeTombstone(RangeTombstone{Start: []byte("a"), End: []byte("b"), Deletion: Deletion{Timestamp: 8}})
		}, false, 0, false},
	} {
		m := &Mutation{Key: NewPartitionKey([]byte("k"))}
		c.build(m)
		cmd, some, err := m.Stamped(10)
		if err != nil || some != c.some || cmd.StaticCounts != c.static || len(cmd.Slices) != c.slices {
			t.Errorf("%s: %+v %v %v", c.what, cmd, some, err)
		}
		moved, err := m.Restamp(10, 20)
		if err != nil {
			t.Fatal(err)
		}
		if _, some, _ = moved.Stamped(20); some != c.some {
			t.Errorf("%s was not moved", c.what)
		}
	}
}

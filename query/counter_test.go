package query

import (
	"encoding/binary"
	"errors"
	"testing"

	"cqld/coordinator"
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/ring"
	"cqld/row"
)

// Count executes counter updates like a replica that gives every change its own shard.
func (s *modelStore) Count(req *coordinator.WriteRequest, done func(error)) {
	for _, m := range req.Mutations {
		own := &row.Mutation{}
		own.Reset(m.Table, m.Key)
		entries := m.Entries()
		var e row.Entry
		for entries.Next(&e) {
			s.counted++
			r := row.NewRow()
			if err := row.DecodeRow(r, e.Value); err != nil {
				done(err)
				return
			}
			for i := range r.Cells {
				r.Cells[i].Path = wire.AppendUint64(nil, uint64(s.counted))
			}
			switch e.Kind {
			case row.KindHeader:
				own.AddHeader(r)
			case row.KindRow:
				r.Clustering = e.Start
				own.AddRow(r)
			case row.KindRangeTombstone:
				own.AddRangeTombstone(row.RangeTombstone{Start: e.Start, End: e.End, Deletion: r.Deletion})
			}
		}
		s.table(m.Table).Apply(own)
	}
	done(nil)
}

func (s *modelStore) Batch(req *coordinator.WriteRequest, done func(error)) {
	s.batches++
	s.Write(req, done)
}

// batching is a test coordinator that also accepts logged batches.
type batching interface {
	Batch(req *coordinator.WriteRequest, done func(error))
}

// testBatches writes the logged batches of a batching coordinator.
type testBatches struct{ batching }

// counting is a test coordinator that also accepts counter updates.
type counting interface {
	Count(req *coordinator.WriteRequest, done func(error))
}

// testCounters updates the counters of a counting coordinator.
type testCounters struct{ counting }

func (c testCounters) Update(req *coordinator.WriteRequest, done func(error)) { c.Count(req, done) }

func (b testBatches) Write(req *coordinator.WriteRequest, done func(error)) { b.Batch(req, done) }

const counterTable = "CREATE TABLE hits (k int, r int, c counter, d counter, s counter static, PRIMARY KEY (k, r))"

func TestCountersAreTheSumOfTheirShards(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, counterTable)
	for _, text := range []string{
		"UPDATE hits SET c = c + 40 WHERE k = 1 AND r = 1",
		"UPDATE hits SET c = c + 3, d += 9, c = c - 1 WHERE k = 1 AND r = 1",
		"UPDATE hits SET s = s - 7 WHERE k = 1",
		"BEGIN COUNTER BATCH UPDATE hits SET s = s + 1 WHERE k = 1; UPDATE hits SET s = s + 1 WHERE k = 1; APPLY BATCH",
	} {
		mustQuery(t, p, s, text)
	}
	r := mustQuery(t, p, s, "SELECT c, d, s FROM hits WHERE k = 1")
	c := wire.NewCursor(r.Rows)
	for _, want := range []int64{42, 9, -5} {
		if got := int64(binary.BigEndian.Uint64(c.Bytes())); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	if got := mustQuery(t, p, s, "SELECT k FROM hits WHERE c = 42 ALLOW FILTERING"); got.RowCount != 1 {
		t.Errorf("%d rows have the value", got.RowCount)
	}
	mustQuery(t, p, s, "DELETE c FROM hits WHERE k = 1 AND r = 1")
	r = mustQuery(t, p, s, "SELECT c FROM hits WHERE k = 1 AND r = 1")
	if c := wire.NewCursor(r.Rows); c.Int32() != -1 {
		t.Errorf("a deleted counter has the value %x", r.Rows)
	}
}

func TestBatchesGoToTheBatchLogOnlyWhenTheyMust(t *testing.T) {
	store := &modelStore{}
	p, s := newTestProcessor(t, store, "CREATE TABLE t (k int PRIMARY KEY, v int)", counterTable)
	for _, c := range []struct {
		text string
		want int
	}{
		{"BEGIN BATCH INSERT INTO t (k, v) VALUES (1, 1); UPDATE t SET v = 2 WHERE k = 1; APPLY BATCH", 0},
		{"BEGIN UNLOGGED BATCH INSERT INTO t (k, v) VALUES (1, 1); INSERT INTO t (k, v) VALUES (2, 1); APPLY BATCH", 0},
		{"UPDATE t SET v = 2 WHERE k IN (1, 2)", 0},
		{"BEGIN BATCH INSERT INTO t (k, v) VALUES (1, 1); INSERT INTO t (k, v) VALUES (2, 1); APPLY BATCH", 1},
	} {
		store.batches = 0
		if mustQuery(t, p, s, c.text); store.batches != c.want {
			t.Errorf("%s: %d batches, want %d", c.text, store.batches, c.want)
		}
	}
}

// TestCounterBatchMessages checks the kinds of BATCH messages, which have no text of their own.
func TestCounterBatchMessages(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int PRIMARY KEY, v int)", counterTable)
	counter := BatchEntry{Text: "UPDATE hits SET c = c + 1 WHERE k = 5 AND r = 5"}
	plain := BatchEntry{Text: "INSERT INTO t (k, v) VALUES (1, 1)"}
	for _, c := range []struct {
		kind    cql.BatchKind
		entries []BatchEntry
		want    string
	}{
		{cql.BatchCounter, []BatchEntry{counter, counter}, ""},
		{cql.BatchUnlogged, []BatchEntry{counter}, ""},
		{cql.BatchCounter, nil, ""},
		{cql.BatchCounter, []BatchEntry{counter, plain}, "Cannot include non-counter statement in a counter batch"},
		{cql.BatchUnlogged, []BatchEntry{counter, plain},
			"Counter and non-counter mutations cannot exist in the same batch"},
		{cql.BatchLogged, []BatchEntry{counter}, "Cannot include a counter statement in a logged batch"},
	} {
		_, err := p.Batch(at(ring.One), s, &BatchParams{Kind: c.kind, Entries: c.entries})
		var refused *invalid.Error
		if errors.As(err, &refused) && refused.Msg == c.want || err == nil && c.want == "" {
			continue
		}
		t.Errorf("kind %d of %d: %v, want %q", c.kind, len(c.entries), err, c.want)
	}
	r := mustQuery(t, p, s, "SELECT c FROM hits WHERE k = 5 AND r = 5")
	if c := wire.NewCursor(r.Rows); c.Int32() != 8 || c.Int64() != 3 {
		t.Errorf("three updates make %x", r.Rows)
	}
}

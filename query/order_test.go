package query

import (
	"testing"

	"cqld/coordinator"
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
)

// stampStore records the last request.
type stampStore struct {
	modelStore
	last *coordinator.WriteRequest
}

func (s *stampStore) Write(req *coordinator.WriteRequest, done func(error)) {
	s.last = req
	s.modelStore.Write(req, done)
}

func (s *stampStore) Batch(req *coordinator.WriteRequest, done func(error)) { s.Write(req, done) }

func (s *stampStore) Count(req *coordinator.WriteRequest, done func(error)) {
	s.last = req
	done(nil)
}

// TestWritesThatMayBeStamped checks that, on a table with write_ordering, exactly the timestamps that the client did
// not set may be replaced, as the request reports.
func TestWritesThatMayBeStamped(t *testing.T) {
	store := &stampStore{}
	p, s := newTestProcessor(t, store,
		"CREATE TABLE o (k int, c int, v int, s set<int>, PRIMARY KEY (k, c)) WITH write_ordering = 'quorum'",
		"CREATE TABLE p (k int, c int, v int, PRIMARY KEY (k, c))",
		"CREATE TABLE n (k int PRIMARY KEY, v counter) WITH write_ordering = 'quorum'")
	insert, stated := "INSERT INTO o (k, c, v) VALUES (1, 1, 1)", " USING TIMESTAMP 5"
	unset := []wire.Value{{Kind: wire.ValueUnset}}
	for _, c := range []struct {
		text    string
		values  []wire.Value
		driver  int64 // its timestamp; 0 means none
		ordered bool
		marked  int // mutations with the timestamp
	}{
		{text: insert, ordered: true, marked: 1},
		{text: insert, driver: 1234, ordered: true, marked: 1},
		{text: insert + stated},
		{text: insert + stated, driver: 1234},
		{text: insert + " USING TIMESTAMP ?", values: unset, ordered: true, marked: 1},
		{text: insert + " USING TTL 100", ordered: true, marked: 1},
		{text: "UPDATE o SET s = {1, 2} WHERE k = 1 AND c = 1", ordered: true, marked: 1},
		{text: "UPDATE o SET v = 2 WHERE k IN (1, 2) AND c = 1", ordered: true, marked: 2},
		{text: "DELETE FROM o WHERE k = 1", ordered: true, marked: 1},
		{text: "DELETE FROM o WHERE k = 1 AND c > 3", ordered: true, marked: 1},
		{text: "DELETE FROM o USING TIMESTAMP 5 WHERE k = 1"},
		{text: "INSERT INTO p (k, c, v) VALUES (1, 1, 1)"},
		{text: "UPDATE n SET v = v + 1 WHERE k = 1"},
		{text: "BEGIN BATCH " + insert + "; INSERT INTO p (k, c, v) VALUES (1, 1, 1); APPLY BATCH", ordered: true,
			marked: 2},
		{text: "BEGIN UNLOGGED BATCH " + insert + stated + "; INSERT INTO o (k, c, v) VALUES (2, 1, 1); APPLY BATCH",
			ordered: true, marked: 1},
		{text: "BEGIN BATCH " + insert + stated + "; INSERT INTO p (k, c, v) VALUES (1, 1, 1); APPLY BATCH"},
		{text: "BEGIN BATCH USING TIMESTAMP 5 " + insert + "; APPLY BATCH"},
		{text: "BEGIN BATCH USING TIMESTAMP ? " + insert + "; APPLY BATCH", values: unset, ordered: true, marked: 1},
		{text: "BEGIN BATCH INSERT INTO p (k, c, v) VALUES (1, 1, 1); APPLY BATCH"},
	} {
		store.last = nil
		params := &Params{Values: c.values, HasTimestamp: c.driver != 0, Timestamp: c.driver}
		before := p.services.Timestamps.Next()
		if _, err := p.Query(at(ring.Quorum), s, c.text, params); err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		req := store.last
		if req.Ordered != c.ordered {
			t.Errorf("%s (%d): ordered %v", c.text, c.driver, req.Ordered)
		}
		if !c.ordered {
			continue
		}
		if c.driver != 0 && req.Stamp != c.driver || c.driver == 0 && req.Stamp <= before {
			t.Errorf("%s: stamp %d", c.text, req.Stamp)
		}
		marked := 0
		for _, m := range req.Mutations {
			if _, some, err := m.Stamped(req.Stamp); err != nil {
				t.Fatal(err)
			} else if some {
				marked++
			}
			moved, err := m.Restamp(req.Stamp, 1<<60)
			if err != nil {
				t.Fatal(err)
			}
			if left := stampsOf(t, moved); left[req.Stamp] || left[req.Stamp-1] {
				t.Errorf("%s: not all is moved", c.text)
			}
		}
		if marked != c.marked {
			t.Errorf("%s: %d mutations bear the stamp", c.text, marked)
		}
	}
	// A BATCH message is a batch without a USING.
	_, err := p.Batch(at(ring.Quorum), s, &BatchParams{Kind: cql.BatchLogged, Entries: []BatchEntry{{Text: insert}},
		Params: Params{HasTimestamp: true, Timestamp: 77}})
	if err != nil || !store.last.Ordered || store.last.Stamp != 77 {
		t.Errorf("BATCH: %+v, %v", store.last, err)
	}
}

// stampsOf returns the timestamps of the entries of m.
func stampsOf(t *testing.T, m *row.Mutation) map[int64]bool {
	t.Helper()
	out := map[int64]bool{}
	for es, e := m.Entries(), (row.Entry{}); es.Next(&e); {
		sum, err := row.Summarize(e.Value, 0)
		if err != nil {
			t.Fatal(err)
		}
		out[sum.TimestampMin], out[sum.TimestampMax] = true, true
	}
	return out
}

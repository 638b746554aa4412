package query

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/cql"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
)

// lateStore answers in other goroutines, before or after the caller starts to wait, and still uses a request after it
// was answered, as late replicas do.
type lateStore struct {
	modelStore
	mu      sync.Mutex
	pending sync.WaitGroup
}

func (s *lateStore) Write(req *coordinator.WriteRequest, done func(error)) {
	s.pending.Go(func() {
		s.mu.Lock()
		s.modelStore.Write(req, func(error) {})
		s.mu.Unlock()
		done(nil)
		for _, m := range req.Mutations { // the last replica
			for es, e := m.Entries(), (row.Entry{}); es.Next(&e); {
			}
		}
	})
}

func (s *lateStore) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	s.pending.Go(func() {
		s.mu.Lock()
		page := s.table(req.Command.Table).Read(req.Command)
		s.mu.Unlock()
		done(page, nil)
		clear(page) // it is valid only until done returns
		row.AppendReadCommand(nil, req.Command)
	})
}

// TestStatementsDoNotDisturbEachOther executes reads and writes of many rows concurrently; each must see its own. With
// -race, it also shows that pooled memory is not shared.
func TestStatementsDoNotDisturbEachOther(t *testing.T) {
	store := &lateStore{}
	p, s := newTestProcessor(t, store, "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))")
	p.services.Clock = &hostClock{}
	p.services.Timestamps = env.NewHLC(p.services.Clock, 0)
	insert := prepare(t, p, s, "INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
	point := prepare(t, p, s, "SELECT v FROM t WHERE k = ? AND c = ?")
	var workers sync.WaitGroup
	for g := range 8 {
		workers.Go(func() {
			for i := range 60 {
				key, c := wire.AppendInt32(nil, int32(g)), wire.AppendInt32(nil, int32(i))
				want := fmt.Sprintf("value %d of %d", i, g)
				params := &Params{PageSize: 7, Values: []wire.Value{
					wire.BytesValue(key), wire.BytesValue(c), wire.BytesValue([]byte(want))}}
				if _, err := p.Execute(at(ring.One), s, insert.ID, params); err != nil {
					t.Error(err)
					return
				}
				params.Values = params.Values[:2]
				r, err := p.Execute(at(ring.One), s, point.ID, params)
				if err != nil {
					t.Error(err)
					return
				}
				cursor := wire.NewCursor(r.Rows)
				if got := string(cursor.Bytes()); got != want || r.RowCount != 1 {
					t.Errorf("%d rows, %q, want %q", r.RowCount, got, want)
				}
				r.Release()
			}
		})
	}
	workers.Wait()
	store.pending.Wait()
	if got := collectPages(t, p, s, "SELECT count(*) FROM t", 100); got != "480\n" {
		t.Errorf("count is %s", got)
	}
	store.pending.Wait()
}

// TestTraces checks that a traced statement creates a session with a duration and events.
func TestTraces(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	r := tracedAt(ring.One)
	if _, err := p.Query(r, s, "INSERT INTO t (k, v) VALUES (1, 2)", &Params{}); err != nil || r.TraceID == nil {
		t.Fatalf("traced %v: %v", r, err)
	}
	got := collectPages(t, p, s, "SELECT command, request, parameters['consistency_level'] FROM "+
		"system_traces.sessions "+
		"WHERE session_id = "+wireUUID(*r.TraceID), 0)
	if got != "'QUERY' | 'Execute CQL3 query' | 'ONE'\n" {
		t.Errorf("session %q", got)
	}
	got = collectPages(t, p, s, "SELECT activity FROM system_traces.events WHERE session_id = "+wireUUID(*r.TraceID), 0)
	if got != "'Parsing INSERT INTO t (k, v) VALUES (1, 2)'\n" {
		t.Errorf("events %q", got)
	}
	got = collectPages(t, p, s, "SELECT count(duration) FROM system_traces.sessions WHERE session_id = "+
		wireUUID(*r.TraceID), 0)
	if got != "1\n" {
		t.Errorf("%q durations", got)
	}
}

func wireUUID(id [16]byte) string { return ring.HostID(id).String() }

// TestBatches checks that a batch is one mutation for each partition, and that refused batches are refused.
func TestBatches(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))")
	info := prepare(t, p, s, "INSERT INTO t (k, c, v) VALUES (?, ?, ?)")
	entry := func(k, c int32, v string) BatchEntry {
		return BatchEntry{ID: info.ID, Values: []wire.Value{wire.BytesValue(wire.AppendInt32(nil, k)),
			wire.BytesValue(wire.AppendInt32(nil, c)), wire.BytesValue([]byte(v))}}
	}
	batch := func(kind cql.BatchKind, entries ...BatchEntry) (*request.Request, error) {
		r := at(ring.One)
		_, err := p.Batch(r, s, &BatchParams{Kind: kind, Entries: entries})
		return r, err
	}
	if _, err := batch(cql.BatchLogged, entry(1, 1, "a"), entry(1, 2, "b"),
		BatchEntry{Text: "DELETE FROM t WHERE k = 1 AND c = 1"}); err != nil {
		t.Error(err)
	}
	if got := collectPages(t, p, s, "SELECT c, v FROM t WHERE k = 1", 0); got != "2 | 'b'\n" {
		t.Errorf("after the batch: %q", got)
	}
	if _, err := batch(cql.BatchLogged, entry(1, 1, "a"), entry(2, 2, "b")); err != nil {
		t.Errorf("a logged batch over two partitions: %v", err)
	}
	var many []BatchEntry
	for k := range int32(11) {
		many = append(many, entry(k, 1, "x"))
	}
	if r, err := batch(cql.BatchUnlogged, many...); err != nil || len(r.Warnings) != 1 {
		t.Errorf("an unlogged batch over 11 partitions: %v", err)
	}
	if _, err := batch(cql.BatchUnlogged, entry(1, 1, string(make([]byte, 60<<10))), entry(2, 1, "")); err == nil ||
		err.Error() != "Batch too large" {
		t.Errorf("a batch of 60 KiB: %v", err)
	}
	if _, err := batch(cql.BatchUnlogged, BatchEntry{Text: "SELECT * FROM t"}); err == nil {
		t.Error("a SELECT in a batch")
	}
	if _, err := batch(cql.BatchUnlogged, BatchEntry{ID: make([]byte, 16)}); err == nil {
		t.Error("an unknown id in a batch")
	}
}

// hostClock is a testClock for several goroutines.
type hostClock struct {
	mu sync.Mutex
	testClock
}

func (c *hostClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.testClock.Now()
}

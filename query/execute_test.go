package query

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/model"
	"cqld/internal/wire"
	"cqld/paxos"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
)

// modelStore is a simple Store, and therefore correct: a model.Table for each table.
type modelStore struct {
	tables           map[schema.StorageID]*model.Table
	reads            int
	counted, batches int
	ballot           int64
	searches         []search.Order
}

// modelBallots is before the ballots of a modelStore, µs: they are later than the clocks of tests.
const modelBallots = 2_000_000_000_000_000

func (s *modelStore) table(id schema.StorageID) *model.Table {
	if s.tables == nil {
		s.tables = map[schema.StorageID]*model.Table{}
	}
	t := s.tables[id]
	if t == nil {
		t = &model.Table{}
		s.tables[id] = t
	}
	return t
}

func (s *modelStore) Write(req *coordinator.WriteRequest, done func(error)) {
	for _, m := range req.Mutations {
		s.table(m.Table).Apply(m)
	}
	done(nil)
}

func (s *modelStore) CAS(req *paxos.CASRequest, done func(bool, []byte, error)) {
	s.ballot++
	page := s.table(req.Command.Table).Read(req.Command)
	m, applies, err := req.Update(page, modelBallots+s.ballot)
	if err == nil && applies && !m.Empty() {
		s.table(m.Table).Apply(m)
	}
	done(applies, page, err)
}

func (s *modelStore) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	s.reads++
	done(s.table(req.Command.Table).Read(req.Command), nil)
}

func (s *modelStore) Truncate(t *schema.Table, _ time.Duration, done func(error)) {
	s.table(t.StorageID).Truncate()
	done(nil)
}

// at returns a request at a consistency level.
func at(level ring.Consistency) *request.Request {
	return &request.Request{Context: context.Background(), Consistency: level, SerialConsistency: ring.Serial}
}

func tracedAt(level ring.Consistency) *request.Request {
	r := at(level)
	r.Tracing = true
	return r
}

// over returns an Executor of a coordinator, which may also be a proposer. It may be nil if no statement reads or
// writes rows.
func over(c request.Coordinator) *request.Executor {
	proposer, _ := c.(request.Proposer)
	batches, _ := c.(batching)
	counters, _ := c.(counting)
	searcher, _ := c.(request.Searcher)
	return request.New(request.Options{Coordinator: c, Searcher: searcher, Batches: testBatches{batches},
		Counters: testCounters{counters}, Proposer: proposer, Clock: &testClock{now: time.Unix(1700000000, 0)}})
}

// newTestProcessor returns a Processor over a model, with a keyspace ks in use.
func newTestProcessor(t testing.TB, store request.Coordinator, definitions ...string) (*Processor, *Session) {
	t.Helper()
	return newProcessorWith(t, store, func(*Options) {}, definitions...)
}

// newProcessorWith is newTestProcessor with other options.
func newProcessorWith(t testing.TB, store request.Coordinator, change func(*Options),
	definitions ...string) (*Processor, *Session) {
	t.Helper()
	n := newOneNode()
	o := Options{View: n, Changer: n, Executor: over(store), Clock: &testClock{now: time.Unix(1700000000, 0)},
		Rand: rand.NewPCG(1, 2), PagingKey: func() []byte { return []byte("key") }, DropCompactStorage: true}
	change(&o)
	p := New(o)
	s := &Session{Version: 5}
	mustQuery(t, p, s, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	s.Keyspace = "ks"
	for _, d := range definitions {
		mustQuery(t, p, s, d)
	}
	return p, s
}

func mustQuery(t testing.TB, p *Processor, s *Session, text string, values ...[]byte) *Result {
	t.Helper()
	params := &Params{}
	for _, v := range values {
		params.Values = append(params.Values, wire.BytesValue(v))
	}
	r, err := p.Query(at(ring.One), s, text, params)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

// nullStore acknowledges all writes and answers every read with one page.
type nullStore struct{ page []byte }

func (s *nullStore) Count(_ *coordinator.WriteRequest, done func(error)) { done(nil) }
func (s *nullStore) Batch(_ *coordinator.WriteRequest, done func(error)) { done(nil) }
func (s *nullStore) CAS(_ *paxos.CASRequest, done func(bool, []byte, error)) {
	done(true, s.page, nil)
}
func (s *nullStore) Write(_ *coordinator.WriteRequest, done func(error)) { done(nil) }
func (s *nullStore) Read(_ *coordinator.ReadRequest, done func([]byte, error)) {
	done(s.page, nil)
}
func (s *nullStore) Truncate(_ *schema.Table, _ time.Duration, done func(error)) { done(nil) }

const userTable = "CREATE TABLE user (user text, id int, message text, n bigint, PRIMARY KEY (user, id))"

func userPage(p *Processor, rows int) []byte {
	table := p.o.View.Schema().Table("ks", "user")
	w := row.NewPageWriter(nil)
	header := row.NewRow()
	w.Partition(row.NewPartitionKey([]byte("theo")), header, nil)
	for i := range rows {
		r := row.NewRow()
		r.Liveness = row.Liveness{Timestamp: 1}
		id := table.Column("id")
		r.Clustering = id.Type.AppendOrdered(nil, wire.AppendInt32(nil, int32(i)), false)
		r.Cells = []row.Cell{
			{Column: table.Column("message").ID, Timestamp: 1, Value: []byte("hello")},
			{Column: table.Column("n").ID, Timestamp: 1, Value: wire.AppendInt64(nil, int64(i))},
		}
		r.Sort()
		w.Row(r)
	}
	w.EndPartition()
	return w.Finish(false)
}

// hotStatement is a prepared statement with its values.
type hotStatement struct {
	p      *Processor
	r      *request.Request
	s      *Session
	id     []byte
	params Params
}

func prepareHot(t testing.TB, store *nullStore, rows int, text string, values ...[]byte) *hotStatement {
	t.Helper()
	p, s := newTestProcessor(t, store, userTable)
	store.page = userPage(p, rows)
	r, err := p.Prepare(at(ring.One), s, text, "")
	if err != nil {
		t.Fatal(err)
	}
	h := &hotStatement{p: p, r: at(ring.Quorum), s: s, id: r.Prepared.ID}
	h.params = Params{PageSize: 5000, SkipMetadata: true, HasTimestamp: true, Timestamp: 5}
	for _, v := range values {
		h.params.Values = append(h.params.Values, wire.BytesValue(v))
	}
	return h
}

func (h *hotStatement) run(t testing.TB) {
	r, err := h.p.Execute(h.r, h.s, h.id, &h.params)
	if err != nil {
		t.Fatal(err)
	}
	r.Release()
}

func hotInsert(t testing.TB) *hotStatement {
	return prepareHot(t, &nullStore{}, 0, "INSERT INTO user (user, id, message, n) VALUES (?, ?, ?, ?)",
		[]byte("theo"), wire.AppendInt32(nil, 1), []byte("hello"), wire.AppendInt64(nil, 7))
}

func hotSelect(t testing.TB) *hotStatement {
	return prepareHot(t, &nullStore{}, 1, "SELECT message, n FROM user WHERE user = ? AND id = ?",
		[]byte("theo"), wire.AppendInt32(nil, 0))
}

func hotSlice(t testing.TB) *hotStatement {
	return prepareHot(t, &nullStore{}, 100, "SELECT id, message, n FROM user WHERE user = ?", []byte("theo"))
}

// TestHotPathsAllocateLittle checks that an EXECUTE allocates only what outlives it: the mutation or the command, and
// the result.
func TestHotPathsAllocateLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget under the race detector")
	}
	for _, c := range []struct {
		name string
		h    *hotStatement
		max  float64
	}{
		{"insert", hotInsert(t), 3},
		{"point select", hotSelect(t), 2},
		{"slice of 100 rows", hotSlice(t), 4},
	} {
		got := testing.AllocsPerRun(200, func() { c.h.run(t) })
		if got > c.max {
			t.Errorf("%s: %v allocations, want at most %v", c.name, got, c.max)
		}
		t.Logf("%s: %v allocations", c.name, got)
	}
}

func BenchmarkExecuteInsert(b *testing.B) {
	h := hotInsert(b)
	b.ReportAllocs()
	for b.Loop() {
		h.run(b)
	}
}

func BenchmarkExecutePointSelect(b *testing.B) {
	h := hotSelect(b)
	b.ReportAllocs()
	for b.Loop() {
		h.run(b)
	}
}

func BenchmarkExecuteSlice100(b *testing.B) {
	h := hotSlice(b)
	b.ReportAllocs()
	for b.Loop() {
		h.run(b)
	}
}

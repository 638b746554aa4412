package query

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/paxos"
	"cqld/request"
	"cqld/ring"
	"cqld/row"
)

// measuredAt returns a request whose cost the client asked for.
func measuredAt(level ring.Consistency) *request.Request {
	r := at(level)
	r.Measure()
	return r
}

// TestCost shows what statements cost: the figures of a measured request. Those of an unmeasured one are equal, except
// that it has no path and no reads of conditional changes, and those of EXPLAIN ANALYZE are equal.
func TestCost(t *testing.T) {
	store := &modelStore{}
	p, s := newTestProcessor(t, store)
	datadriven.RunTest(t, "testdata/cost.txt", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		params := &Params{}
		for _, a := range d.CmdArgs {
			if a.Key == "page" {
				fmt.Sscan(a.Vals[0], &params.PageSize)
			}
		}
		for _, text := range strings.Split(d.Input, "\n") {
			for page := 1; ; page++ {
				r := measuredAt(ring.Quorum)
				result, err := p.Query(r, s, text, params)
				if err != nil {
					out.WriteString(errorText(err))
					break
				}
				if d.Cmd == "cost" {
					c := r.Cost
					fmt.Fprintf(&out, "%q: returned %d, rows %d, tombstones %d, partitions %d, commands %d, bytes %d\n",
						c.Path, result.RowCount, c.Rows, c.Tombstones, c.Partitions, c.Commands, c.Bytes)
				}
				if strings.HasPrefix(text, "SELECT") {
					checkSameCost(t, p, s, text, params, r.Cost)
				}
				if params.PagingState = result.PagingState; params.PagingState == nil {
					break
				}
			}
		}
		return out.String()
	})
}

// checkSameCost executes a SELECT in an unmeasured request and by EXPLAIN ANALYZE, and compares the costs.
func checkSameCost(t *testing.T, p *Processor, s *Session, text string, params *Params, want request.Cost) {
	t.Helper()
	r := at(ring.Quorum)
	if _, err := p.Query(r, s, text, params); err != nil {
		t.Fatal(err)
	}
	if got := r.Cost; got.Path != "" || func() bool { got.Path = want.Path; return got != want }() {
		t.Errorf("%s: unmeasured %+v, measured %+v", text, r.Cost, want)
	}
	explained, err := p.Query(at(ring.Quorum), s, "EXPLAIN ANALYZE "+text, params)
	if err != nil {
		t.Fatal(err)
	}
	lines := rowsAsText(t, explained)
	for _, line := range []string{
		fmt.Sprintf("path | %s:", want.Path), fmt.Sprintf("rows read | %d\n", want.Rows),
		fmt.Sprintf("tombstones read | %d\n", want.Tombstones), fmt.Sprintf("partitions read | %d\n", want.Partitions),
		fmt.Sprintf("commands | %d\n", want.Commands), fmt.Sprintf("bytes read | %d\n", want.Bytes),
	} {
		if !strings.Contains(lines, line) {
			t.Errorf("%s: EXPLAIN ANALYZE lacks %q:\n%s", text, line, lines)
		}
	}
}

// pageCounter is a shortPages that counts the pages it answers with.
type pageCounter struct {
	shortPages
	total    request.Cost
	rowsOnly int // live rows, without partitions that have only static columns
}

func (s *pageCounter) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	s.shortPages.Read(req, func(page []byte, err error) {
		s.count(page, req.Command.Now)
		done(page, err)
	})
}

func (s *pageCounter) CAS(req *paxos.CASRequest, done func(bool, []byte, error)) {
	counted := *req
	counted.Update = func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
		s.count(page, req.Command.Now)
		return req.Update(page, timestamp)
	}
	s.modelStore.CAS(&counted, done)
}

func (s *pageCounter) count(page []byte, now int64) {
	s.total.CountPage(page, now)
	s.total.Commands++
	s.total.Bytes += len(page)
	var reader row.PageReader
	var x row.Row
	for reader.Reset(page); reader.NextPartition(); {
		for reader.NextRow(&x) {
			if x.Live(now) {
				s.rowsOnly++
			}
		}
	}
}

// TestCostsOfGeneratedStatements compares the cost of generated statements with the pages that they were answered with:
// the commands and bytes are those of the pages, and rows, tombstones and partitions at most as many. Without a limit
// they are as many.
func TestCostsOfGeneratedStatements(t *testing.T) {
	unlimited, changes := 0, 0
	for seed := range uint64(12) {
		store := &pageCounter{}
		c := newPagingCaseOver(t, seed+1, &store.shortPages, store)
		for i := range 60 {
			store.total, store.rowsOnly, store.short = request.Cost{}, 0, i%2 == 0
			r := measuredAt(ring.One)
			params := &Params{}
			text := ""
			if i%4 == 3 {
				text = c.g.Change().Literal()
				changes++
			} else {
				q := c.g.Select()
				text = q.Text
				for _, v := range q.Values {
					params.Values = append(params.Values, wire.BytesValue(v.Bytes))
				}
			}
			result, err := c.p.Query(r, c.s, text, params)
			if err != nil {
				continue
			}
			got, want := r.Cost, store.total
			if got.Commands != want.Commands || got.Bytes != want.Bytes ||
				got.Rows > want.Rows || got.Tombstones > want.Tombstones || got.Partitions > want.Partitions {
				t.Errorf("seed %d: %s costs %+v, but its pages have %+v", seed+1, text, got, want)
			}
			if upper := strings.ToUpper(text); strings.Contains(upper, "LIMIT") || strings.Contains(upper, "DISTINCT") {
				continue
			}
			if result.Kind == KindRows && (got.Rows < store.rowsOnly || got.Tombstones != want.Tombstones ||
				got.Partitions != want.Partitions) {
				t.Errorf("seed %d: %s costs %+v, but its pages have %+v, and %d rows", seed+1, text, got, want,
					store.rowsOnly)
			}
			if result.Kind == KindRows {
				unlimited++
			}
		}
	}
	if unlimited < 100 || changes < 100 {
		t.Errorf("only %d SELECT statements without a limit, and %d changes", unlimited, changes)
	}
}

// TestExplainAnalyzeNamesContactedReplicas: EXPLAIN ANALYZE names the replicas that were asked.
func TestExplainAnalyzeNamesContactedReplicas(t *testing.T) {
	n := newOneNode()
	p := explainProcessor(n, &contactStore{nodes: []ring.NodeID{2, 1, 2}})
	s := &Session{Version: 5, Keyspace: "ks"}
	for _, text := range []string{"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', " +
		"'replication_factor': 2}",
		"CREATE TABLE t (k int PRIMARY KEY)"} {
		mustQuery(t, p, s, text)
	}
	if text := rowsAsText(t, mustQuery(t, p, s, "EXPLAIN ANALYZE SELECT k FROM t WHERE k = "+
		"1")); !strings.Contains(text, "replicas asked | 127.0.0.1, 127.0.0.2\n") {
		t.Error(text)
	}
	if text := rowsAsText(t, mustQuery(t, p, s, "EXPLAIN SELECT k FROM t WHERE k = 1")); strings.Contains(text,
		"replicas asked") {
		t.Error(text)
	}
}

// contactStore is a modelStore whose reads contact replicas.
type contactStore struct {
	modelStore
	nodes []ring.NodeID
}

func (s *contactStore) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	for _, n := range s.nodes {
		coordinator.AddContact(req.Trace, n)
	}
	s.modelStore.Read(req, done)
}

// TestTracedRequestsAreMeasured: tracing and measuring do not exclude each other.
func TestTracedRequestsAreMeasured(t *testing.T) {
	store := &contactStore{nodes: []ring.NodeID{1}}
	p, s := newTestProcessor(t, store, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	mustQuery(t, p, s, "INSERT INTO t (k, v) VALUES (1, 1)")
	r := measuredAt(ring.One)
	r.Tracing = true
	result, err := p.Query(r, s, "SELECT v FROM t WHERE k = 1", &Params{})
	if err != nil || r.TraceID == nil || result.RowCount != 1 {
		t.Fatal(result, err)
	}
	if r.Cost.Rows != 1 || r.Cost.Commands != 1 || len(r.Replicas()) != 1 {
		t.Errorf("cost %+v, replicas %v", r.Cost, r.Replicas())
	}
}

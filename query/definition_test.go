package query

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/cql"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/request"
	"cqld/ring"
	"cqld/schema"
)

// oneNode is a cluster of one node whose schema changes immediately.
type oneNode struct {
	schema    *schema.Schema
	topology  *ring.Topology
	truncated []string
}

func newOneNode() *oneNode {
	self := &ring.Node{ID: 1, Host: ring.HostID{1}, Datacenter: "datacenter1", Rack: "rack1", State: ring.Normal,
		Internode: netip.MustParseAddrPort("127.0.0.1:7000"), Native: netip.MustParseAddrPort("127.0.0.1:9042"),
		Tokens: []ring.Token{-100, 0, 100}}
	return &oneNode{schema: schema.Initial(), topology: ring.NewTopology(1, []*ring.Node{self})}
}

func (n *oneNode) Self() ring.NodeID                 { return 1 }
func (n *oneNode) Schema() *schema.Schema            { return n.schema }
func (n *oneNode) Topology() *ring.Topology          { return n.topology }
func (n *oneNode) Alive(ring.NodeID) bool            { return true }
func (n *oneNode) PaxosFloor(schema.StorageID) int64 { return 0 }

func (n *oneNode) ProposeSchema(_ context.Context, change schema.Change) error {
	decoded, err := schema.DecodeChange(schema.EncodeChange(change))
	if err != nil {
		return err
	}
	next, err := schema.Apply(n.schema, decoded)
	if err == nil {
		n.schema = next
	}
	return err
}

func (n *oneNode) AwaitSchema(context.Context) error { return nil }

func (n *oneNode) SchemaVersion(ring.NodeID) schema.UUID { return n.schema.Version() }

// testClock advances only by ticks of one millisecond.
type testClock struct{ now time.Time }

func (c *testClock) Now() time.Time {
	c.now = c.now.Add(time.Millisecond)
	return c.now
}
func (c *testClock) Monotonic() time.Duration              { return c.now.Sub(time.Unix(0, 0)) }
func (c *testClock) After(time.Duration, func()) env.Timer { panic("nothing waits here") }

// TestDefinitionsAnswerAsCassandra executes definitions whose results were recorded from Cassandra 5.0.9: error codes
// and messages, warnings, and the output of DESCRIBE.
func TestDefinitionsAnswerAsCassandra(t *testing.T) {
	datadriven.Walk(t, "testdata/definition", func(t *testing.T, path string) {
		n := newOneNode()
		p := New(Options{Rand: rand.New(rand.NewPCG(1, 1)), View: n, Changer: n,
			Clock: &testClock{now: time.Unix(1700000000, 0)}, Executor: over(&truncateStore{n: n}),
			ClusterName: "Test Cluster"})
		s := &Session{Version: 5}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return runDefinition(p, s, d.Input)
		})
	})
}

func runDefinition(p *Processor, s *Session, text string) string {
	stmt, err := cql.Parse(text)
	var r *Result
	req := at(ring.One)
	switch stmt := stmt.(type) {
	case nil:
	case *cql.Use:
		if p.o.View.Schema().Keyspace(stmt.Keyspace) == nil {
			return "error 2200: no such keyspace\n"
		}
		s.Keyspace = stmt.Keyspace
		return "ok\n"
	case *cql.Describe:
		r, err = p.describe(s, stmt, &Params{})
	default:
		r, err = define(p, req, s, text, stmt)
	}
	if err != nil {
		return errorText(err)
	}
	var lines []string
	cursor := wire.NewCursor(r.Rows)
	for range r.RowCount {
		var row []string
		for range r.Metadata.Columns {
			row = append(row, string(cursor.Bytes()))
		}
		if len(row) == 4 {
			row = row[3:] // create_statement
		}
		lines = append(lines, strings.Join(row, " | "))
	}
	for _, w := range req.Warnings {
		lines = append(lines, "warning: "+w)
	}
	if len(lines) == 0 {
		return "ok\n"
	}
	return strings.Join(lines, "\n") + "\n"
}

func errorText(err error) string {
	var syntax *cql.SyntaxError
	var refused *invalid.Error
	var config *invalid.Config
	var exists *invalid.AlreadyExists
	var unauthorized *invalid.Unauthorized
	switch {
	case errors.As(err, &syntax):
		return "error 2000: " + syntax.Msg + "\n"
	case errors.As(err, &refused):
		return "error 2200: " + refused.Msg + "\n"
	case errors.As(err, &config):
		return "error 2300: " + config.Msg + "\n"
	case errors.As(err, &unauthorized):
		return "error 2100: " + unauthorized.Msg + "\n"
	case errors.As(err, &exists):
		return fmt.Sprintf("error 2400: %s.%s\n", exists.Keyspace, exists.Table)
	}
	return fmt.Sprintf("error 0000: %T %v\n", err, err)
}

// define executes a statement on the schema, or a TRUNCATE.
func define(p *Processor, r *request.Request, s *Session, text string, stmt cql.Statement) (*Result, error) {
	truncate, ok := stmt.(*cql.Truncate)
	if !ok {
		return p.executeDefinition(r, s, stmt)
	}
	pl, err := p.compile(p.services.View.Schema(), s.Keyspace, text, stmt)
	if err != nil {
		return nil, err
	}
	return p.executeTruncate(r, pl, truncate, &Params{})
}

// truncateStore is a coordinator for TRUNCATE only.
type truncateStore struct {
	request.Coordinator
	n        *oneNode
	timeouts []time.Duration
}

func (s *truncateStore) Truncate(t *schema.Table, timeout time.Duration, done func(error)) {
	s.n.truncated = append(s.n.truncated, t.Name)
	s.timeouts = append(s.timeouts, timeout)
	done(nil)
}

package query

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/ring"
)

// definitions executes statements and returns the last result.
func definitions(t *testing.T, n *oneNode, texts ...string) *Result {
	t.Helper()
	p := New(Options{Rand: rand.New(rand.NewPCG(1, 1)), View: n, Changer: n,
		Clock: &testClock{now: time.Unix(1700000000, 0)}, Executor: over(&truncateStore{n: n})})
	var r *Result
	for _, text := range texts {
		stmt, err := cql.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if r, err = define(p, at(ring.One), &Session{Keyspace: "k"}, text, stmt); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return r
}

// members sets the cluster's nodes to one for each given data center.
func (n *oneNode) members(datacenters ...string) {
	var nodes []*ring.Node
	for i, dc := range datacenters {
		addr := netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)})
		nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Host: ring.HostID{byte(i + 1)}, Datacenter: dc,
			Rack:  "r",
			State: ring.Normal, Internode: netip.AddrPortFrom(addr, 7000), Native: netip.AddrPortFrom(addr, 9042),
			Tokens: []ring.Token{ring.Token(i)}})
	}
	n.topology = ring.NewTopology(2, nodes)
}

func TestReplicationDefaultsToFourOrTheNodesThereAre(t *testing.T) {
	for _, c := range []struct {
		members []string
		with    string
		want    ring.Replication
	}{
		{[]string{"a"}, "{'class': 'SimpleStrategy'}", ring.Replication{Class: ring.Simple, Factor: 1}},
		{[]string{"a", "a", "a", "a"}, "{'class': 'SimpleStrategy'}", ring.Replication{Class: ring.Simple, Factor: 4}},
		{[]string{"a", "a", "a", "a", "a"}, "{}", ring.Replication{Class: ring.Simple, Factor: 4}},
		{[]string{"a", "a", "a", "a", "a", "b"}, "{'class': 'NetworkTopologyStrategy'}",
			ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 4},
				ring.DatacenterFactor{Datacenter: "b", Factor: 1})},
		{[]string{"a", "b"}, "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3, 'b': 0}",
			ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 3})},
	} {
		n := newOneNode()
		n.members(c.members...)
		definitions(t, n, "CREATE KEYSPACE k WITH replication = "+c.with)
		if got := n.schema.Keyspace("k").Replication; !got.Equal(c.want) {
			t.Errorf("%v %s: %+v, want %+v", c.members, c.with, got, c.want)
		}
	}
}

func TestDefinitionsReportChange(t *testing.T) {
	n := newOneNode()
	for _, c := range []struct {
		text string
		want *SchemaChange // nil means void
	}{
		{"CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
			&SchemaChange{Change: "CREATED", Target: "KEYSPACE", Keyspace: "k"}},
		{"CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'SimpleStrategy'}", nil},
		{"ALTER KEYSPACE k WITH durable_writes = true", nil},
		{"ALTER KEYSPACE k WITH durable_writes = false",
			&SchemaChange{Change: "UPDATED", Target: "KEYSPACE", Keyspace: "k"}},
		{"CREATE TABLE t (a int PRIMARY KEY)", &SchemaChange{Change: "CREATED", Target: "TABLE", Keyspace: "k",
			Name: "t"}},
		{"ALTER TABLE t ADD b int", &SchemaChange{Change: "UPDATED", Target: "TABLE", Keyspace: "k", Name: "t"}},
		{"ALTER TABLE t ADD IF NOT EXISTS b int", nil},
		{"ALTER TABLE t WITH comment = ''", nil},
		{"ALTER TABLE t DROP b", &SchemaChange{Change: "UPDATED", Target: "TABLE", Keyspace: "k", Name: "t"}},
		{"CREATE TYPE u (a int)", &SchemaChange{Change: "CREATED", Target: "TYPE", Keyspace: "k", Name: "u"}},
		{"ALTER TYPE u ADD b text", &SchemaChange{Change: "UPDATED", Target: "TYPE", Keyspace: "k", Name: "u"}},
		{"DROP TYPE u", &SchemaChange{Change: "DROPPED", Target: "TYPE", Keyspace: "k", Name: "u"}},
		{"TRUNCATE t", nil},
		{"DROP TABLE t", &SchemaChange{Change: "DROPPED", Target: "TABLE", Keyspace: "k", Name: "t"}},
		{"DROP TABLE IF EXISTS t", nil},
		{"DROP KEYSPACE k", &SchemaChange{Change: "DROPPED", Target: "KEYSPACE", Keyspace: "k"}},
	} {
		r := definitions(t, n, c.text)
		wantKind := KindSchemaChange
		if c.want == nil {
			wantKind = KindVoid
		}
		if r.Kind != wantKind || !reflect.DeepEqual(r.SchemaChange, c.want) {
			t.Errorf("%s: kind %d, %+v", c.text, r.Kind, r.SchemaChange)
		}
	}
	if len(n.truncated) != 1 || n.truncated[0] != "t" {
		t.Errorf("truncated: %v", n.truncated)
	}
}

func TestDescribeByPages(t *testing.T) {
	n := newOneNode()
	definitions(t, n, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}",
		"CREATE TABLE a (a int PRIMARY KEY)", "CREATE TABLE b (a int PRIMARY KEY)",
		"CREATE TABLE c (a int PRIMARY KEY)")
	p := New(Options{Rand: rand.New(rand.NewPCG(1, 1)), View: n, Changer: n, Clock: &testClock{}, Executor: over(nil)})
	s := &Session{Keyspace: "k"}
	params := &Params{PageSize: 2}
	var sizes []int32
	for {
		r, err := p.describe(s, &cql.Describe{Kind: cql.DescribeTables}, params)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, r.RowCount)
		if r.PagingState == nil {
			break
		}
		params.PagingState = r.PagingState
	}
	if !reflect.DeepEqual(sizes, []int32{2, 1}) {
		t.Errorf("pages of %v rows", sizes)
	}
	definitions(t, n, "DROP TABLE c")
	_, err := p.describe(s, &cql.Describe{Kind: cql.DescribeTables}, params)
	if err == nil || !strings.HasPrefix(err.Error(), "The schema has changed since the previous page") {
		t.Errorf("a page of another schema: %v", err)
	}
	params.PagingState = []byte("nonsense")
	_, err = p.describe(s, &cql.Describe{Kind: cql.DescribeTables}, params)
	var bad *invalid.BadRequest
	if !errors.As(err, &bad) {
		t.Errorf("nonsense for a paging state: %v", err)
	}
}

func TestDescribeClusterShowsRangeOwners(t *testing.T) {
	n := newOneNode()
	n.members("a", "a")
	definitions(t, n, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")
	p := New(Options{Rand: rand.New(rand.NewPCG(1, 1)), View: n, Clock: &testClock{}, Executor: over(nil),
		ClusterName: "c"})
	r, err := p.describe(&Session{Keyspace: "k"}, &cql.Describe{Kind: cql.DescribeCluster}, &Params{})
	if err != nil {
		t.Fatal(err)
	}
	text := string(r.Rows)
	if len(r.Metadata.Columns) != 4 || strings.Count(text, "/127.0.0.1:7000") != 2 ||
		strings.Count(text, "/127.0.0.2:7000") != 2 {
		t.Errorf("%d columns: %q", len(r.Metadata.Columns), text)
	}
}

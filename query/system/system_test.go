package system

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

type fixedView struct {
	self ring.NodeID
	s    *schema.Schema
	t    *ring.Topology
}

func (v fixedView) Self() ring.NodeID        { return v.self }
func (v fixedView) Schema() *schema.Schema   { return v.s }
func (v fixedView) Topology() *ring.Topology { return v.t }

// SchemaVersion returns another version for node 4, which lacks the last change.
func (v fixedView) SchemaVersion(id ring.NodeID) schema.UUID {
	if id == 4 {
		return schema.UUID{4}
	}
	return v.s.Version()
}

func node(id ring.NodeID, state ring.NodeState) *ring.Node {
	addr := netip.AddrFrom4([4]byte{127, 0, 0, byte(id)})
	return &ring.Node{ID: id, Host: ring.HostID{byte(id)}, Datacenter: "dc1", Rack: "r1", State: state,
		Internode: netip.AddrPortFrom(addr, 7000), Native: netip.AddrPortFrom(addr, 9042),
		Tokens: []ring.Token{ring.Token(id), -5 * ring.Token(id)}}
}

func source(t *testing.T, changes ...schema.Change) *Source {
	t.Helper()
	s := schema.Initial()
	for _, c := range changes {
		var err error
		if s, err = schema.Apply(s, c); err != nil {
			t.Fatal(err)
		}
	}
	topology := ring.NewTopology(1, []*ring.Node{node(1, ring.Normal), node(2, ring.Normal), node(3, ring.Joining),
		node(4, ring.Leaving)})
	return New(Options{View: fixedView{1, s, topology}, ClusterName: "test",
		Estimate: func(t *schema.Table) Estimate {
			return Estimate{MeanBytes: 100, Partitions: func(r ring.Range) int64 {
				return int64(uint64(r.End-r.Start) >> 40)
			}}
		},
		Clients: func() []Client { return []Client{{Address: netip.MustParseAddrPort("10.0.0.1:5"), Keyspace: "k"}} },
		Jobs: func() []Job {
			return []Job{{ID: "1", Kind: "repair", Target: "k", State: "running", Unit: "ranges", Done: 1, Total: 4,
				Left: 90 * time.Second, Attempt: 1,
				Created: time.UnixMilli(5), Began: time.UnixMilli(6)},
				{ID: "2", Kind: "cleanup", State: "queued", Unit: "ranges"}}
		},
		Ranges: func() []RangeLoad {
			return []RangeLoad{{Tokens: ring.Range{Start: 5, End: -5}, Nodes: []string{"10.0.0.1"}, Bytes: 7},
				{Tokens: ring.Range{Start: -5, End: 5}, HotKeyspace: "k", HotTable: "t", HotKey: "1", HotToken: 3}}
		},
		Settings: func() map[string]string { return map[string]string{"num_tokens": "16"} }})
}

func partitions(t *testing.T, s *Source, keyspace, table string) []*row.Partition {
	t.Helper()
	def := s.o.View.Schema().Table(keyspace, table)
	if def == nil || !s.Serves(def) {
		t.Fatalf("%s.%s is not served", keyspace, table)
	}
	var all []*row.Partition
	if _, err := s.Partitions(def, everything(), func(p *row.Partition) bool {
		all = append(all,
			p)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// everything returns a command that reads all rows of a table.
func everything() *row.ReadCommand {
	return &row.ReadCommand{Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()}}
}

// value returns the value of a single-cell column; nil is null.
func value(t *schema.Table, r *row.Row, column string) []byte {
	for _, c := range r.Cells {
		if c.Column == t.Column(column).ID {
			return c.Value
		}
	}
	return nil
}

func TestLocalIsThisNode(t *testing.T) {
	s := source(t)
	all := partitions(t, s, "system", "local")
	if len(all) != 1 || string(all[0].Key.Bytes) != "local" || len(all[0].Rows) != 1 {
		t.Fatalf("system.local: %+v", all)
	}
	def := s.o.View.Schema().Table("system", "local")
	r := &all[0].Rows[0]
	if got := value(def, r, "rpc_address"); !bytes.Equal(got, []byte{127, 0, 0, 1}) {
		t.Errorf("rpc_address %v", got)
	}
	version := s.o.View.Schema().Version()
	if got := value(def, r, "schema_version"); !bytes.Equal(got, version[:]) {
		t.Errorf("schema_version %x", got)
	}
	n := 0
	for _, c := range r.Cells {
		if c.Column == def.Column("tokens").ID && c.Path != nil {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d tokens", n)
	}
}

// Drivers drop peers that are not complete, and are confused by one that is the node itself.
func TestPeersAreTheOtherCompleteNodes(t *testing.T) {
	s := source(t)
	for _, table := range []string{"peers", "peers_v2"} {
		all := partitions(t, s, "system", table)
		if len(all) != 2 {
			t.Fatalf("%s has %d partitions, nodes 2 and 4 are wanted", table, len(all))
		}
		def := s.o.View.Schema().Table("system", table)
		for _, p := range all {
			for _, column := range []string{"host_id", "data_center", "rack", "release_version", "schema_version"} {
				if value(def, &p.Rows[0], column) == nil {
					t.Errorf("%s: %s is null", table, column)
				}
			}
			version := s.o.View.SchemaVersion(ring.NodeID(p.Key.Bytes[3]))
			if got := value(def, &p.Rows[0], "schema_version"); !bytes.Equal(got, version[:]) {
				t.Errorf("%s: schema_version %x of %v, want the reported version", table, got, p.Key.Bytes)
			}
		}
	}
}

func TestEveryVirtualTableCanBeRead(t *testing.T) {
	udt := types.NewUDT("k", "u", []string{"f"}, []*types.Type{types.Native(types.Int)}, false)
	s := source(t,
		&schema.CreateKeyspace{Keyspace: "k",
			Replication: ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "dc1", Factor: 2})},
		&schema.CreateType{Type: udt},
		&schema.CreateTable{Keyspace: "k", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{
				{Name: "p", Kind: schema.PartitionKey, Type: types.Native(types.Int)},
				{Name: "v", Kind: schema.Regular, Type: udt},
				{Name: "w", Kind: schema.Regular, Type: types.Native(types.Int)}}},
		&schema.AlterTable{Keyspace: "k", Table: "t", Drop: []string{"w"}, DropMicros: 5000})
	now := s.o.View.Schema()
	rows := map[string]int{}
	for _, keyspace := range now.KeyspaceNames() {
		for _, table := range now.Keyspace(keyspace).TableNames() {
			if !now.Table(keyspace, table).Virtual {
				continue
			}
			for _, p := range partitions(t, s, keyspace, table) {
				for i := range p.Rows {
					rows[keyspace+"."+table]++
					if i > 0 && bytes.Compare(p.Rows[i-1].Clustering, p.Rows[i].Clustering) >= 0 {
						t.Errorf("%s.%s: rows out of order", keyspace, table)
					}
				}
			}
		}
	}
	for table, want := range map[string]int{"system_schema.keyspaces": 6, "system_schema.types": 1,
		"system_schema.dropped_columns": 1, "system_virtual_schema.keyspaces": 2, "system_virtual_schema.tables": 28,
		"system_views.clients": 1, "system_views.jobs": 2,
		"system_views.ranges": 2, "system_views.settings": 1, "system.peers": 2,
		"system.batches": 0} {
		if rows[table] != want {
			t.Errorf("%s has %d rows, want %d", table, rows[table], want)
		}
	}
	if n := rows["system_schema.tables"]; n != 23+12+8+4+2+1 {
		t.Errorf("system_schema.tables has %d rows", n)
	}
}

func TestMistakesAreReported(t *testing.T) {
	b := newBuilder(schema.Initial().Table("system", "peers_v2"), everything())
	b.add(values{"peer": {1, 2, 3, 4}})
	if _, err := b.yield(func(*row.Partition) bool { return true }); err == nil {
		t.Error("a missing clustering value was not noticed")
	}
	b = newBuilder(schema.Initial().Table("system", "local"), everything())
	b.add(values{"key": text("local"), "nope": text("x")})
	if _, err := b.yield(func(*row.Partition) bool { return true }); err == nil {
		t.Error("an unknown column was not noticed")
	}
}

// TestEstimatesHaveARowForEveryPrimaryRange divides the ring as Spark does: the primary ranges of all nodes cover it
// once.
func TestEstimatesHaveARowForEveryPrimaryRange(t *testing.T) {
	s := source(t)
	for _, table := range []string{"size_estimates", "table_estimates"} {
		seen := map[string]int{}
		for id := range ring.NodeID(4) {
			s.o.View = fixedView{id + 1, s.o.View.Schema(), s.o.View.Topology()}
			for _, p := range partitions(t, s, "system", table) {
				if string(p.Key.Bytes) != "system_auth" {
					continue
				}
				for _, r := range p.Rows {
					seen[string(r.Clustering)]++
				}
			}
		}
		if len(seen) == 0 {
			t.Errorf("%s is empty", table)
		}
		for tokens, n := range seen {
			if n != 1 {
				t.Errorf("%s: %d nodes have the row %q", table, n, tokens)
			}
		}
	}
}

func TestJobs(t *testing.T) {
	s := source(t)
	all := partitions(t, s, "system_views", "jobs")
	if len(all) != 2 {
		t.Fatalf("%d jobs", len(all))
	}
	table := s.o.View.Schema().Table("system_views", "jobs")
	if string(all[0].Key.Bytes) == "2" { // partitions are in the order of their tokens
		all[0], all[1] = all[1], all[0]
	}
	first, second := &all[0].Rows[0], &all[1].Rows[0]
	for name, want := range map[string][]byte{"completion_ratio": double(0.25), "remaining_seconds": bigint(90),
		"created_at": bigint(5), "started_at": bigint(6)} {
		if got := value(table, first, name); !bytes.Equal(got, want) {
			t.Errorf("%s is %x, want %x", name, got, want)
		}
	}
	for _, name := range []string{"total", "completion_ratio", "remaining_seconds", "created_at", "started_at",
		"ended_at", "error", "phase"} {
		if got := value(table, second, name); got != nil {
			t.Errorf("%s of a queued job is %x", name, got)
		}
	}
}

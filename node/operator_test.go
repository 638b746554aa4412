package node

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/ring"
)

// operated is a ring with a client for the control socket of each node.
type operated struct {
	*inProcess
	clients []*control.Client
}

// openOperated opens a ring of n nodes at consecutive addresses from 127.0.subnet.1. Their data is on disk, which
// snapshots require. The table shop.orders has 20 partitions on n replicas.
func openOperated(t *testing.T, subnet byte, n int) *operated {
	t.Helper()
	r := &operated{inProcess: openNodes(t, subnet, n, func(o *config.Options) {
		o.FS, o.LogLevel = vfs.Default, new(slog.LevelVar)
	})}
	for _, node := range r.nodes {
		r.clients = append(r.clients, control.DialSocket(filepath.Join(node.opts.DataDir, control.SocketName)))
	}
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': "+
		""+strconv.Itoa(n)+"}")
	r.query(c, "CREATE TABLE shop.orders (customer text, id int, item text, PRIMARY KEY ((customer, id)))")
	for i := range 20 {
		r.queryAll(c, "INSERT INTO shop.orders (customer, id, item) VALUES ('ada', "+strconv.Itoa(i)+", 'lamp')")
	}
	return r
}

// operate executes an operation at node i. A failure fails the test.
func operate[A, R any](r *operated, i int, op control.Operation[A, R], args A) R {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	result, err := control.Call(ctx, r.clients[i], op, args, nil)
	if err != nil {
		r.t.Fatalf("%s %+v: %v", op.Name, args, err)
	}
	return result
}

// refusedOperation is an operation at node 0 that must fail, with the expected code and a part of the message.
type refusedOperation struct {
	name    string
	run     func(ctx context.Context, c *control.Client) error
	code    control.Code
	message string
}

func refuses[A, R any](op control.Operation[A, R], args A, code control.Code, message string) refusedOperation {
	return refusedOperation{op.Name, func(ctx context.Context, c *control.Client) error {
		_, err := control.Call(ctx, c, op, args, nil)
		return err
	}, code, message}
}

// check runs operations that must fail as specified.
func (r *operated) check(all []refusedOperation) {
	r.t.Helper()
	for _, x := range all {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		err := x.run(ctx, r.clients[0])
		cancel()
		var e *control.Error
		if !errors.As(err, &e) || e.Code != x.code || !strings.Contains(e.Message, x.message) {
			r.t.Errorf("%s: %#v, want %q with %q", x.name, err, x.code, x.message)
		}
	}
}

var (
	nowhere   = control.KeyspaceArgs{Keyspace: "nowhere"}
	noTables  = control.TablesArgs{Keyspace: "shop", Tables: []string{"customers"}}
	notStored = control.TablesArgs{Keyspace: "system_views", Tables: []string{"settings"}}
)

// TestOperationsRefuseBadArguments calls each operation that has arguments with invalid ones, or in a state that
// forbids it.
func TestOperationsRefuseBadArguments(t *testing.T) {
	r := openOperated(t, 68, 2)
	self := r.nodes[0].cluster.Metadata().Topology.Node(r.nodes[0].cluster.Self())
	other := r.nodes[1].opts.Internode().String()
	taken := int64(r.nodes[1].cluster.Metadata().Topology.OwnedBy(r.nodes[1].cluster.Self())[0])
	operate(r, 0, control.TakeSnapshot, control.SnapshotArgs{Tag: "taken", Keyspaces: []string{"shop"}})
	orders := control.TableArgs{Keyspace: "shop", Table: "orders"}

	r.check([]refusedOperation{
		refuses(control.StatusOf, nowhere, control.Invalid, "The keyspace nowhere, does not exist"),
		refuses(control.StatusOf, control.KeyspaceArgs{Keyspace: "system"}, control.Invalid,
			"keyspace system is local to each node"),
		refuses(control.TokensOf, nowhere, control.Invalid, "The keyspace nowhere, does not exist"),
		refuses(control.DescribeRing, nowhere, control.Invalid, "The keyspace nowhere, does not exist"),
		refuses(control.DescribeRing, control.KeyspaceArgs{Keyspace: "system_schema"}, control.Invalid,
			"local to each node"),
		refuses(control.EndpointsOf, control.EndpointsArgs{Keyspace: "nowhere", Table: "t", Key: "1"}, control.Invalid,
			"does not exist"),
		refuses(control.EndpointsOf, control.EndpointsArgs{Keyspace: "shop", Table: "customers", Key: "1"},
			control.Invalid, "table shop.customers does not exist"),
		refuses(control.EndpointsOf, control.EndpointsArgs{Keyspace: "shop", Table: "orders", Key: "ada"},
			control.Invalid, "has 2 columns"),
		refuses(control.EndpointsOf, control.EndpointsArgs{Keyspace: "shop", Table: "orders", Key: "ada:one"},
			control.Invalid, "one"),

		refuses(control.StatsOfTables, control.TablesArgs{Keyspace: "nowhere"}, control.Invalid,
			"Keyspace [nowhere] does not exist."),
		refuses(control.StatsOfTables, control.TablesArgs{Tables: []string{"orders"}}, control.Invalid,
			"the tables orders have no keyspace"),
		refuses(control.Compact, control.TablesArgs{Tables: []string{"orders"}}, control.Invalid,
			"the tables orders have no keyspace"),
		refuses(control.HistogramsOf, control.TableArgs{Table: "orders"}, control.Invalid,
			"the tables orders have no keyspace"),
		refuses(control.StatsOfTables, noTables, control.Invalid, "table shop.customers does not exist"),
		refuses(control.StatsOfTables, notStored, control.Invalid, "system_views.settings"),
		refuses(control.HistogramsOf, control.TableArgs{Keyspace: "shop", Table: "customers"}, control.Invalid,
			"table shop.customers does not exist"),
		refuses(control.TopPartitions, control.TopArgs{TableArgs: control.TableArgs{Keyspace: "shop",
			Table: "customers"}, Duration: time.Second}, control.Invalid, "does not exist"),
		refuses(control.TopPartitions, control.TopArgs{TableArgs: orders}, control.Invalid,
			"the time must be more than 0"),
		refuses(control.TopPartitions, control.TopArgs{TableArgs: orders, Duration: 10*time.Minute + 1},
			control.Invalid,
			"at most 10m0s"),
		refuses(control.TopPartitions, control.TopArgs{TableArgs: orders, Duration: time.Millisecond, Count: -1},
			control.Invalid, "must not be negative"),

		refuses(control.Flush, noTables, control.Invalid, "table shop.customers does not exist"),
		refuses(control.Compact, noTables, control.Invalid, "table shop.customers does not exist"),
		refuses(control.Cleanup, noTables, control.Invalid, "table shop.customers does not exist"),
		refuses(control.Repair, control.RepairArgs{TablesArgs: noTables}, control.Invalid,
			"table shop.customers does not exist"),
		refuses(control.Repair, control.RepairArgs{Datacenters: []string{"datacenter1", "moon"}}, control.Invalid,
			"data center moon does not exist; the data centers are datacenter1"),
		refuses(control.Repair, control.RepairArgs{Hosts: []string{other, "127.0.0.99"}}, control.Invalid,
			"node 127.0.0.99 does not exist"),
		refuses(control.Repair, control.RepairArgs{Hosts: []string{other, other}}, control.Refused,
			"no range of all keyspaces has more than one replica on "),
		refuses(control.Repair, control.RepairArgs{LocalDatacenter: true, Datacenters: []string{"datacenter1"}},
			control.Invalid, "cannot be combined"),
		refuses(control.Repair, control.RepairArgs{Datacenters: []string{"datacenter1"}, Hosts: []string{other}},
			control.Invalid, "cannot be combined"),
		refuses(control.Repair, control.RepairArgs{LocalDatacenter: true, Corrupted: true}, control.Invalid,
			"--corrupted needs all replicas"),
		refuses(control.Rebuild, control.RebuildArgs{Keyspace: "nowhere"}, control.Invalid,
			"Keyspace [nowhere] does not exist."),
		refuses(control.Rebuild, control.RebuildArgs{Datacenter: "moon"}, control.Invalid,
			"data center moon does not exist; the data centers are datacenter1"),

		refuses(control.TakeSnapshot, control.SnapshotArgs{Tag: "../taken"}, control.Invalid,
			"is not a valid snapshot name"),
		refuses(control.TakeSnapshot, control.SnapshotArgs{Tag: "taken"}, control.Refused,
			"snapshot taken already exists"),
		refuses(control.TakeSnapshot, control.SnapshotArgs{Tag: "other", Keyspaces: []string{"nowhere"}},
			control.Invalid, "Keyspace [nowhere] does not exist."),
		refuses(control.ShowSnapshot, control.VerifyArgs{Tag: "other"}, control.Invalid,
			"snapshot other does not exist"),
		refuses(control.RotateKeys, control.RotateArgs{}, control.Refused, "the node does not encrypt its files"),
		refuses(control.ClearSnapshot, control.ClearArgs{}, control.Invalid, "Specify snapshot name or --all"),
		refuses(control.ClearSnapshot, control.ClearArgs{Tag: "taken", All: true}, control.Invalid,
			"Specify snapshot name or --all"),
		refuses(control.ClearSnapshot, control.ClearArgs{Tag: "other"}, control.Invalid,
			"snapshot other does not exist"),

		refuses(control.SetLoggingLevel, control.Logging{Level: "loud"}, control.Invalid,
			"is not one of debug, info, warn, error"),

		refuses(control.RemoveNode, control.NodeArgs{Node: "127.0.0.99"}, control.Invalid,
			"node 127.0.0.99 does not exist"),
		refuses(control.RemoveNode, control.NodeArgs{Node: self.Host.String()}, control.Refused,
			"a node cannot remove itself"),
		refuses(control.RemoveNode, control.NodeArgs{Node: other}, control.Refused, "alive"),
		refuses(control.Move, control.MoveArgs{Tokens: []int64{1}}, control.Refused,
			"the node has 8 tokens and would have 1"),
		refuses(control.Move, control.MoveArgs{Tokens: []int64{taken}, Force: true}, control.Refused,
			"is owned by node"),
		refuses(control.Abort, control.AbortArgs{}, control.Invalid, "0 operations are in progress"),
		refuses(control.Abort, control.AbortArgs{Operation: 99}, control.Refused, "there is no operation 99"),
		refuses(control.Decommission, control.ForceArgs{}, control.Refused,
			"Not enough live nodes to maintain replication factor in keyspace shop"),
	})
	// Refused operations have changed nothing.
	if all := operate(r, 0, control.ListSnapshots, control.None{}).Snapshots; len(all) != 1 || all[0].Tag != "taken" {
		t.Errorf("snapshots %+v", all)
	}
	if all := operate(r, 0, control.Operations, control.None{}).Operations; len(all) != 0 {
		t.Errorf("operations %+v", all)
	}
	if m := operate(r, 0, control.StatusOf, control.KeyspaceArgs{}).Members; len(m) != 2 || m[0].Tokens != 8 ||
		m[1].Tokens != 8 {
		t.Errorf("members %+v", m)
	}
}

// TestOperationsShowTheRing compares the results of operations that show the ring with its metadata.
func TestOperationsShowTheRing(t *testing.T) {
	r := openOperated(t, 69, 2)
	topology := r.nodes[0].cluster.Metadata().Topology

	status := operate(r, 0, control.StatusOf, control.KeyspaceArgs{Keyspace: "shop"})
	if !status.Effective || status.Uneven || len(status.Members) != 2 {
		t.Fatalf("status %+v", status)
	}
	for _, m := range status.Members {
		if !m.Up || m.State != "Normal" || m.Tokens != 8 || m.Load == nil || m.Owns < 0.999 || m.Owns > 1.001 ||
			m.Datacenter != "datacenter1" || m.Rack != "rack1" {
			t.Errorf("member %+v", m)
		}
	}

	tokens := operate(r, 0, control.TokensOf, control.KeyspaceArgs{})
	if len(tokens.Tokens) != len(topology.Tokens()) {
		t.Errorf("%d tokens, want %d", len(tokens.Tokens), len(topology.Tokens()))
	}
	for i, x := range tokens.Tokens {
		if ring.Token(x.Token) != topology.Tokens()[i] || tokens.Members[x.Member].ID != uint64(topology.Owner(i).ID) {
			t.Errorf("token %d is %+v", i, x)
		}
	}

	all := operate(r, 0, control.DescribeCluster, control.None{})
	if all.Name != "cqld" || all.Partitioner != "org.apache.cassandra.dht.Murmur3Partitioner" ||
		len(all.SchemaVersions) != 1 || len(all.Versions) != 1 || len(all.Members) != 2 ||
		!slices.Contains(all.Keyspaces, control.Keyspace{Name: "shop",
			Replication: "SimpleStrategy {replication_factor=2}"}) {
		t.Errorf("cluster %+v", all)
	}

	ranges := operate(r, 0, control.DescribeRing, control.KeyspaceArgs{Keyspace: "shop"}).Ranges
	for i, x := range ranges {
		if len(x.Endpoints) != 2 || len(x.Pending) != 0 || x.Start != ranges[(i+len(ranges)-1)%len(ranges)].End {
			t.Errorf("range %d: %+v", i, x)
		}
	}
	if len(ranges) == 0 {
		t.Error("no ranges")
	}

	at := operate(r, 0, control.EndpointsOf, control.EndpointsArgs{Keyspace: "shop", Table: "orders", Key: "ada:7"})
	key := []byte("\x00\x03ada\x00\x00\x04\x00\x00\x00\x07\x00")
	if ring.Token(at.Token) != ring.Murmur3(key) || len(at.Endpoints) != 2 {
		t.Errorf("endpoints %+v, want token %s", at, ring.Murmur3(key))
	}

	info := operate(r, 1, control.InfoOf, control.None{})
	if info.Mode != "NORMAL" || !info.NativeActive || info.ID != uint64(r.nodes[1].cluster.Self()) ||
		len(info.ListOfTokens) != 8 ||
		info.Uptime <= 0 || info.HeapUsed <= 0 || info.Goroutines <= 0 || info.DiskTotal <= 0 || info.DiskFull ||
		info.Hints != 0 || len(info.Corrupt) != 0 {
		t.Errorf("info %+v", info)
	}
	first := r.nodes[0].opts.Internode().String()
	if seeds := operate(r, 1, control.SeedsOf, control.None{}).Seeds; !slices.Equal(seeds, []string{first}) {
		t.Errorf("seeds %q, want %s", seeds, first)
	}
	if seeds := operate(r, 0, control.SeedsOf, control.None{}).Seeds; len(seeds) != 0 {
		t.Errorf("seeds of the first node %q", seeds)
	}
}

// TestOperationsShowFigures writes and reads, and then checks the statistics of tables, pools, connections and storage.
func TestOperationsShowFigures(t *testing.T) {
	r := openOperated(t, 70, 1)
	orders := control.TablesArgs{Keyspace: "shop", Tables: []string{"orders"}}
	operate(r, 0, control.Flush, orders)
	operate(r, 0, control.Compact, orders)
	c := r.connect(0)
	for range 64 { // one of eight reads is measured
		r.query(c, "SELECT * FROM shop.orders WHERE customer = 'ada' AND id = 1")
	}

	stats := operate(r, 0, control.StatsOfTables, orders)
	if len(stats.Tables) != 1 || stats.Flushes == 0 {
		t.Fatalf("tables %+v", stats)
	}
	if x := stats.Tables[0]; x.Keyspace != "shop" || x.Table != "orders" || x.Bytes == 0 || x.Files == 0 ||
		x.Writes < 20 || x.Reads < 64 || x.ReadLatency <= 0 {
		t.Errorf("table %+v", x)
	}
	if all := operate(r, 0, control.StatsOfTables, control.TablesArgs{}); len(all.Tables) < 10 {
		t.Errorf("%d tables in all", len(all.Tables))
	}
	if h := operate(r, 0, control.HistogramsOf, control.TableArgs{Keyspace: "shop",
		Table: "orders"}).Read; h.Count < 4 || h.P50 <= 0 || h.Max < h.P99 {
		t.Errorf("histogram %+v", h)
	}

	pools := operate(r, 0, control.StatsOfPools, control.None{})
	for _, name := range []string{"Native-Transport-Requests", "CoordinatorWrites", "ReadStage", "MutationStage",
		"CommitLogSync", "CompactionExecutor"} {
		if !slices.ContainsFunc(pools.Pools, func(p control.Pool) bool { return p.Name == name }) {
			t.Errorf("no pool %s in %+v", name, pools.Pools)
		}
	}
	for _, d := range pools.Dropped {
		if d.Count != 0 {
			t.Errorf("dropped %+v", d)
		}
	}
	if x := operate(r, 0, control.CompactionStats, control.None{}); x.Flushes == 0 || len(x.Levels) != 7 ||
		x.Failed != 0 {
		t.Errorf("compactions %+v", x)
	}
	if x := operate(r, 0, control.NetStats, control.None{}); x.Mode != "NORMAL" || len(x.Streams) != 0 ||
		len(x.Peers) != 0 || x.HintBytesMax == 0 {
		t.Errorf("net %+v", x)
	}
	clients := operate(r, 0, control.ClientStats, control.None{}).Clients
	if len(clients) != 2 || clients[0].Version != 5 || clients[0].User != "anonymous" || clients[0].Requests == 0 ||
		clients[0].TLS {
		t.Errorf("clients %+v", clients)
	}
	if x := operate(r, 0, control.TimeoutsOf, control.None{}).Timeouts; x["read"] != r.nodes[0].opts.Timeouts.Read ||
		x["truncate"] != r.nodes[0].opts.Timeouts.Truncate || x["counterwrite"] != r.nodes[0].opts.Timeouts.Counter ||
		x["cascontention"] != r.nodes[0].opts.Timeouts.CAS || x["cascontention"] == 0 {
		t.Errorf("timeouts %v", x)
	}
}

// TestTopPartitionsShowsTheBusiest samples while one partition is read and another written. A second sample must wait.
func TestTopPartitionsShowsTheBusiest(t *testing.T) {
	r := openOperated(t, 71, 1)
	c := r.connect(0)
	args := control.TopArgs{TableArgs: control.TableArgs{Keyspace: "shop", Table: "orders"}, Duration: time.Minute,
		Count: 1}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun, canceled := make(chan struct{}), make(chan error, 1)
	go func() {
		once := false
		_, err := control.Call(ctx, r.clients[0], control.TopPartitions, args, func(control.Progress) {
			if !once {
				close(begun)
				once = true
			}
		})
		canceled <- err
	}()
	<-begun
	r.check([]refusedOperation{refuses(control.TopPartitions, args, control.Refused, "try again later")})
	cancel()
	if err := <-canceled; err == nil {
		t.Error("a sample continues after its client disconnected")
	}

	args.Duration = 500 * time.Millisecond
	var top control.Top
	for end := time.Now().Add(30 * time.Second); ; {
		done := make(chan error, 1)
		go func() {
			var err error
			top, err = control.Call(t.Context(), r.clients[0], control.TopPartitions, args, nil)
			done <- err
		}()
		var err error
		for ended := false; !ended; {
			select {
			case err = <-done:
				ended = true
			default:
				r.query(c, "SELECT * FROM shop.orders WHERE customer = 'ada' AND id = 1")
				r.query(c, "UPDATE shop.orders SET item = 'x' WHERE customer = 'a:b' AND id = 2")
			}
		}
		var e *control.Error
		if err == nil {
			break
		}
		if !errors.As(err, &e) || e.Code != control.Refused || time.Now().After(end) {
			t.Fatal(err) // any error except that the canceled sample has not ended yet
		}
	}
	if len(top.Reads) != 1 || top.Reads[0].Key != "ada:1" || top.Reads[0].Count == 0 {
		t.Errorf("reads %+v", top.Reads)
	}
	if len(top.Writes) != 1 || top.Writes[0].Key != `a\:b:2` || top.Writes[0].Count == 0 {
		t.Errorf("writes %+v", top.Writes)
	}
}

// TestSnapshotsAreMadeListedAndCleared makes snapshots of one keyspace and of all keyspaces.
func TestSnapshotsAreMadeListedAndCleared(t *testing.T) {
	r := openOperated(t, 72, 1)
	if all := operate(r, 0, control.ListSnapshots, control.None{}).Snapshots; len(all) != 0 {
		t.Errorf("a new node has snapshots %+v", all)
	}
	one := operate(r, 0, control.TakeSnapshot, control.SnapshotArgs{Tag: "one", Keyspaces: []string{"shop"}})
	if one.Tag != "one" || !slices.Equal(one.Keyspaces, []string{"shop"}) || one.Size == 0 ||
		time.Since(one.Created) > time.Minute || len(one.Lacks) != 0 {
		t.Errorf("snapshot %+v", one)
	}
	if v := operate(r, 0, control.VerifySnapshot, control.VerifyArgs{Tag: "one"}); v.Files == 0 || v.Problems != nil {
		t.Errorf("verified %+v", v)
	}
	// A snapshot without a manifest is listed with the reason, and can be removed.
	if err := os.Remove(filepath.Join(one.Directory, "manifest.json")); err != nil {
		t.Fatal(err)
	}
	all := operate(r, 0, control.TakeSnapshot, control.SnapshotArgs{})
	if all.Tag == "" || !slices.Contains(all.Keyspaces, "shop") || !slices.Contains(all.Keyspaces, "system_auth") {
		t.Errorf("snapshot of all keyspaces %+v", all)
	}
	if err := os.MkdirAll(filepath.Join(r.nodes[0].opts.DataDir, "snapshots", ".making-interrupted"),
		0o700); err != nil {
		t.Fatal(err)
	}
	list := operate(r, 0, control.ListSnapshots, control.None{}).Snapshots
	if len(list) != 2 || !slices.ContainsFunc(list, func(s control.Snapshot) bool {
		return s.Tag == "one" && s.Problem != "" && s.Size < one.Size
	}) || !slices.ContainsFunc(list, func(s control.Snapshot) bool { return s.Tag == all.Tag && s.Problem == "" }) {
		t.Errorf("snapshots %+v", list)
	}
	if gone := operate(r, 0, control.ClearSnapshot, control.ClearArgs{Tag: "one"}).Snapshots; len(gone) != 1 ||
		gone[0].Tag != "one" {
		t.Errorf("cleared %+v", gone)
	}
	if gone := operate(r, 0, control.ClearSnapshot, control.ClearArgs{All: true}).Snapshots; len(gone) != 1 ||
		gone[0].Tag != all.Tag {
		t.Errorf("cleared %+v", gone)
	}
	if _, err := os.Stat(one.Directory); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of a cleared snapshot: %v", err)
	}
}

// TestOperatorSwitchesTakeEffect disables and enables the CQL port and hints, changes the log level, and drains the
// node at the end.
func TestOperatorSwitchesTakeEffect(t *testing.T) {
	r := openOperated(t, 73, 1)
	n := r.nodes[0]
	for _, on := range []bool{false, false, true, true} {
		operate(r, 0, control.SetBinary, control.Switch{On: on})
		if got := operate(r, 0, control.BinaryOf, control.None{}); got.On != on || got.Why != "" ||
			n.servers.Accepting() != on {
			t.Errorf("the CQL port is %+v, want %t", got, on)
		}
		operate(r, 0, control.SetHandoff, control.Switch{On: on})
		if got := operate(r, 0, control.HandoffOf, control.None{}); got.On != on || n.parts.Hints.Accepting() != on {
			t.Errorf("hints are %+v, want %t", got, on)
		}
	}
	r.query(r.connect(0), "SELECT * FROM shop.orders")

	operate(r, 0, control.SetLoggingLevel, control.Logging{Level: "debug"})
	if got := operate(r, 0, control.LoggingLevelOf, control.None{}); got.Level != "DEBUG" ||
		n.opts.LogLevel.Level() != slog.LevelDebug {
		t.Errorf("level %+v", got)
	}
	n.opts.LogLevel = nil
	r.check([]refusedOperation{
		refuses(control.LoggingLevelOf, control.None{}, control.Unsupported, "not supported yet"),
		refuses(control.SetLoggingLevel, control.Logging{Level: "info"}, control.Unsupported, "not supported yet"),
	})

	operate(r, 0, control.Drain, control.None{})
	if info := operate(r, 0, control.InfoOf, control.None{}); info.Mode != "DRAINED" || info.NativeActive ||
		info.Clients != 0 {
		t.Errorf("a drained node %+v", info)
	}
	if clients := operate(r, 0, control.ClientStats, control.None{}).Clients; len(clients) != 0 {
		t.Errorf("a drained node has clients %+v", clients)
	}
	r.check([]refusedOperation{refuses(control.SetBinary, control.Switch{On: true}, control.Refused,
		"the node is drained")})
}

// TestOperationsChangeTheRing repairs, rebuilds, cleans up, moves and decommissions a node of a ring.
func TestOperationsChangeTheRing(t *testing.T) {
	r := openOperated(t, 74, 2)
	orders := control.TablesArgs{Keyspace: "shop"}
	if got := operate(r, 0, control.Repair, control.RepairArgs{TablesArgs: orders}); got.Ranges == 0 ||
		got.Different != 0 || got.Skipped != 0 || len(got.LeftOut) != 0 {
		t.Errorf("repair %+v", got)
	}
	// A verification reads files only.
	operate(r, 0, control.Flush, control.TablesArgs{})
	for _, a := range []control.VerifyFilesArgs{{}, {TablesArgs: orders, BytesPerSecond: 1 << 40}} {
		if got := operate(r, 0, control.VerifyFiles, a); len(got.Corrupt) != 0 || got.Files == 0 && a.Keyspace == "" {
			t.Errorf("verification %+v: %+v", a, got)
		}
	}
	r.check([]refusedOperation{
		refuses(control.VerifyFiles, control.VerifyFilesArgs{BytesPerSecond: -1}, control.Invalid,
			"must not be negative"),
		refuses(control.VerifyFiles, control.VerifyFilesArgs{TablesArgs: control.TablesArgs{Keyspace: "nosuch"}},
			control.Invalid, "does not exist"),
	})
	if got := operate(r, 0, control.Repair, control.RepairArgs{TablesArgs: orders, Corrupted: true}); got.Ranges != 0 {
		t.Errorf("repair without corrupt files: %+v", got)
	}
	second := r.nodes[1].opts.Internode().String()
	for target, a := range map[string]control.RepairArgs{
		"shop in the local data center": {LocalDatacenter: true},
		"shop in datacenter1":           {Datacenters: []string{"datacenter1"}},
		"shop on " + second + ", 1":     {Hosts: []string{second, "1"}},
	} {
		a.TablesArgs = orders
		if got := operate(r, 0, control.Repair, a); got.Ranges == 0 || got.Different != 0 || got.Skipped != 0 {
			t.Errorf("repair of %s %+v", target, got)
		}
		all := operate(r, 0, control.ListJobs, control.JobArgs{}).Jobs
		if !slices.ContainsFunc(all, func(j control.Job) bool { return j.Target == target && j.State == "done" }) {
			t.Errorf("no job %s in %+v", target, all)
		}
	}
	operate(r, 1, control.Rebuild, control.RebuildArgs{Keyspace: "shop", Datacenter: "datacenter1"})
	operate(r, 0, control.Cleanup, orders)
	operate(r, 0, control.Cleanup, control.TablesArgs{Keyspace: "shop", Tables: []string{"orders"}})
	if got := operate(r, 0, control.PendingHintsOf, control.None{}).Peers; len(got) != 1 || got[0].Records != 0 ||
		got[0].ID != uint64(r.nodes[1].cluster.Self()) {
		t.Errorf("hints %+v", got)
	}

	tokens := []int64{-4e18, 1, 4e18}
	operate(r, 1, control.Move, control.MoveArgs{Tokens: tokens, Force: true})
	if got := operate(r, 1, control.InfoOf, control.None{}).ListOfTokens; !slices.Equal(got, tokens) {
		t.Errorf("tokens %v after the move, want %v", got, tokens)
	}

	if got := operate(r, 1, control.Decommission, control.ForceArgs{Force: true}); !got.Left {
		t.Errorf("decommission %+v", got)
	}
	await.Until(t, "the ring has one member", func() bool {
		return len(operate(r, 0, control.StatusOf, control.KeyspaceArgs{}).Members) == 1
	})
	if got := r.query(r.connect(0), "SELECT * FROM shop.orders"); len(got.Rows) == 0 {
		t.Error("the rows were lost")
	}
}

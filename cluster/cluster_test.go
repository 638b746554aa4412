package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/cluster/metadata"
	"cqld/clusterversion"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
	"cqld/schema/refused"
)

type wallClock struct{ start time.Time }

func (wallClock) Now() time.Time             { return time.Now() }
func (c wallClock) Monotonic() time.Duration { return time.Since(c.start) }
func (wallClock) After(d time.Duration, f func()) env.Timer {
	return time.AfterFunc(d, f)
}

// testNode is a Cluster with its transport, on loopback and in-memory disks.
type testNode struct {
	t     *testing.T
	fs    vfs.FS
	addr  netip.AddrPort
	seeds []netip.AddrPort
	seed  uint64
	// replace names the member whose place the node takes.
	replace string
	// limit bounds the time to join; zero means patience.
	limit time.Duration
	// lookUp, if any, replaces the seeds.
	lookUp func(then func(SeedAddresses))
	// network, if any, wraps the transport of the node.
	network func(Network) Network
	// fatal, if any, is called instead of failing the test when the node must stop.
	fatal func(error)
	// versions are the cluster versions that the node's build supports; zero means those of this build.
	versions clusterversion.Range

	*Cluster
	net    *messaging.StreamTransport
	stop   func()
	tokens []ring.Token // initial_token
}

func newTestNode(t *testing.T, i int, seeds ...netip.AddrPort) *testNode {
	return &testNode{t: t, fs: vfs.NewMem(), addr: newAddr(), seeds: seeds, seed: uint64(i),
		versions: clusterversion.Range{Min: 1, Max: 1}}
}

// addrs counts the addresses that newAddr has returned.
var addrs atomic.Uint32

// newAddr returns an address of a test node, with any port. No other socket of the machine uses it, so the port that
// the node selects is free when the node restarts.
func newAddr() netip.AddrPort {
	pid, n := os.Getpid(), addrs.Add(1)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(128 + pid>>8%100), byte(pid), byte(1 + n%254)}), 0)
}

// numTokens returns the number of tokens that the node requests, or of the tokens that it names.
func (n *testNode) numTokens() int {
	if len(n.tokens) > 0 {
		return len(n.tokens)
	}
	return 16
}

// open starts the node; it is then a member, or the error is the reason.
func (n *testNode) open() error {
	opened := make(chan *Cluster, 1) // streams to known peers come up before Open returns
	n.net = messaging.NewStreamTransport(messaging.Options{Cluster: "test", Listen: n.addr,
		Limits: messaging.DefaultLimits(),
		Connected: func(id ring.NodeID, up bool) {
			c := <-opened
			opened <- c
			c.StreamChanged(id, up)
		}})
	// At its first start, a node listens before the handlers are set, which selects its port: no other node knows the
	// port yet. At a restart it listens after they are set, because peers connect immediately.
	restart := n.addr.Port() != 0
	if !restart {
		if err := n.net.Open(); err != nil {
			return err
		}
		n.addr = n.net.Addr()
	}
	network := Network(n.net)
	if n.network != nil {
		network = n.network(n.net)
	}
	fatal := n.fatal
	if fatal == nil {
		fatal = func(err error) { n.t.Error(err) }
	}
	c, err := Open(Options{Name: "test", Dir: "raft", FS: n.fs, Network: network, Clock: wallClock{time.Now()},
		Rand: rand.New(rand.NewPCG(n.seed, uint64(time.Now().UnixNano()))), Logger: slog.New(slog.DiscardHandler),
		Seeds: n.seeds, Versions: n.versions,
		Self: metadata.NodeSpec{Datacenter: "dc1", Rack: "r1", Internode: n.addr, Native: n.addr,
			NumTokens: n.numTokens(), Tokens: n.tokens,
			Replace: n.replace},
		LookUpSeeds: n.lookUp, ReplicationFactor: 4, Fatal: fatal})
	if err != nil {
		return err
	}
	n.Cluster = c
	opened <- c
	if restart {
		if err := n.net.Open(); err != nil {
			return errors.Join(err, c.Close())
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	n.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		n.net.Close()
		if err := c.Close(); err != nil {
			n.t.Error(err)
		}
	})
	n.t.Cleanup(n.stop)
	join, done := context.WithTimeout(ctx, cmp.Or(n.limit, patience))
	defer done()
	return c.Join(join)
}

func (n *testNode) mustOpen() *testNode {
	n.t.Helper()
	if err := n.open(); err != nil {
		n.t.Fatal(err)
	}
	return n
}

func startRing(t *testing.T, size int) []*testNode {
	t.Helper()
	first := newTestNode(t, 1).mustOpen()
	nodes := []*testNode{first}
	for i := 2; i <= size; i++ {
		nodes = append(nodes, newTestNode(t, i, first.addr).mustOpen())
	}
	eventually(t, func() bool {
		for _, n := range nodes {
			for _, m := range nodes {
				if !n.Alive(m.Self()) || len(n.Metadata().Topology.Nodes()) != size {
					return false
				}
			}
		}
		return true
	})
	return nodes
}

// patience is how long a test waits for an event: a machine that is busy with other work, and the race detector, must
// not cause a failure.
const patience = 3 * time.Minute

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not reached in %s", patience)
}

func createKeyspace(n *testNode, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return n.ProposeSchema(ctx, &schema.CreateKeyspace{Keyspace: name, DurableWrites: true,
		Replication: ring.Replication{Class: ring.Simple, Factor: 4}})
}

func TestDDLWaitsForAllLiveNodes(t *testing.T) {
	nodes := startRing(t, 4)
	for i := range 20 {
		name := fmt.Sprintf("ks%d", i)
		if err := createKeyspace(nodes[i%4], name); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if n.Metadata().Schema.Keyspace(name) == nil {
				t.Fatalf("node %d has no %s", n.Self(), name)
			}
		}
	}
	for _, n := range nodes {
		if n.Metadata().Schema.Version() != nodes[0].Metadata().Schema.Version() {
			t.Error("schema versions differ")
		}
	}
}

func TestRacingCreatesGiveOne(t *testing.T) {
	nodes := startRing(t, 3)
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = createKeyspace(n, "same") })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		var exists *refused.Exists
		switch {
		case err == nil:
			won++
		case !errors.As(err, &exists):
			t.Errorf("got %v, want refused.Exists", err)
		}
	}
	if won != 1 {
		t.Errorf("%d of 3 creates won", won)
	}
}

func TestMetadataSurvivesTheLossOfOneAndARestart(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[0], "before"); err != nil {
		t.Fatal(err)
	}
	leader := nodes[0] // the founder leads in the normal case
	leader.stop()
	eventually(t, func() bool { return !nodes[1].Alive(1) && !nodes[3].Alive(1) })
	if err := createKeyspace(nodes[3], "without"); err != nil {
		t.Fatal(err)
	}
	if err := leader.open(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		return leader.Metadata().Schema.Keyspace("without") != nil && nodes[1].Alive(1)
	})
	if err := createKeyspace(leader, "after"); err != nil {
		t.Fatal(err)
	}
}

func TestSingleVoterRestarts(t *testing.T) {
	n := newTestNode(t, 1).mustOpen()
	if err := createKeyspace(n, "kept"); err != nil {
		t.Fatal(err)
	}
	host := n.HostID()
	n.stop()
	n.mustOpen()
	if n.Metadata().Schema.Keyspace("kept") == nil || n.HostID() != host {
		t.Error("the restarted node is another one")
	}
}

func TestManyChangesAreCompactedAndASnapshotBringsANodeUp(t *testing.T) {
	nodes := startRing(t, 3)
	third := nodes[2]
	third.stop()
	eventually(t, func() bool { return !nodes[0].Alive(3) })
	for i := range snapshotEvery + snapshotKeep + 50 {
		name := fmt.Sprintf("ks%d", i)
		if err := createKeyspace(nodes[0], name); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := nodes[1].ProposeSchema(ctx, &schema.DropKeyspace{Keyspace: name}); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	third.mustOpen()
	eventually(t, func() bool { return third.Metadata().Epoch == nodes[0].Metadata().Epoch })
	if err := createKeyspace(third, "end"); err != nil {
		t.Fatal(err)
	}
	// The log was compacted, and the snapshot does not contain the node.
	fourth := newTestNode(t, 4, nodes[0].addr).mustOpen()
	if err := createKeyspace(fourth, "of_the_fourth"); err != nil {
		t.Fatal(err)
	}
}

package simulation

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"testing/cryptotest"
	"time"

	"cqld/cluster/raftlog"
	"cqld/internal/mutant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/damage"
	"cqld/simulation/kernel"
	"cqld/simulation/pages"
	"cqld/simulation/texttable"
)

var (
	prefixCount = flag.String("prefixes", "250", "how many prefixes TestEveryPrefixOfTheLog replays, or all")
	prefixSeed  = flag.Uint64("prefix-seed", 0, "which prefixes it draws; 0: others in each run")
	prefixLog   = flag.Uint64("prefix-log", 11, "the seed of the log that it records")
)

// recordLog returns a ring with rows and a long metadata log: nodes join, leave, move and are replaced, tables and
// keyspaces are created, dropped and created again, and replications change.
func recordLog(t *testing.T, o Options) *Cluster {
	t.Helper()
	cryptotest.SetGlobalRandom(t, o.Seed)
	c := NewCluster(o)
	w := c.workloads[0].(*restarts)
	w.launch(o.Clients, 60*time.Millisecond, w.step)
	c.kernel.RunUntil(c.kernel.Now()+3*time.Second, func() bool { return false })
	c.heal()
	c.kernel.RunUntil(c.kernel.Now()+time.Minute, w.idle)
	r := kernel.NewStream(o.Seed, "record")
	quiet := func() bool {
		m := c.metadata()
		return len(c.missing()) == 0 && len(m.Topology.Operations()) == 0 && len(m.PendingCleanup) == 0
	}
	calmly := func(what string, f func()) {
		f()
		c.kernel.RunUntil(c.kernel.Now()+time.Second, func() bool { return false })
		if c.kernel.RunUntil(c.kernel.Now()+2*time.Minute, quiet); !quiet() {
			t.Fatalf("%s does not end: %+v", what, c.metadata().Topology.Operations())
		}
	}
	join := func() { c.operator.joinNode(r) }
	leave := func() { n := c.present()[len(c.present())-1]; n.leaving = true; c.operator.decommission(n) }
	move := func() { c.operator.moveNode(r) }
	replace := func() { n := c.present()[1]; n.crash(true); n.wipe(); n.start() }
	tables := func() {
		for range 2 {
			c.change(&schema.CreateKeyspace{Keyspace: "other",
				Replication: ring.Replication{Class: ring.Simple, Factor: 2}, DurableWrites: true})
			table := texttable.New("other")
			table.Keyspace = "other"
			c.change(table)
			c.change(&schema.AlterKeyspace{Keyspace: "other",
				Replication: &ring.Replication{Class: ring.Simple, Factor: 3}})
			c.change(&schema.AlterKeyspace{Keyspace: "other",
				Replication: &ring.Replication{Class: ring.Simple, Factor: 1}})
			c.change(&schema.DropTable{Keyspace: "other", Table: "other"})
			c.change(table)
			c.change(&schema.DropKeyspace{Keyspace: "other"})
		}
	}
	for i, f := range []func(){join, join, move, tables, leave, move, leave, replace, join, tables, join, leave, leave,
		move} {
		calmly(fmt.Sprint("step ", i), f)
	}
	return c
}

// heldRows returns the rows of table restarts that a node stores and whose ranges it holds.
func heldRows(t *testing.T, c *Cluster, n *Node, placement *ring.Placement) map[string]bool {
	t.Helper()
	w := c.workloads[0].(*restarts)
	rows, err := pages.Rows(n.process.engine, w.table, clock{n.process}.Now().Unix())
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{}
	for _, r := range w.rows {
		key := w.key(r.partition)
		name := string(key.Bytes) + "/" + r.clustering
		if rows[name] && slices.Contains(placement.Replicas(row.NewPartitionKey(key.Bytes).Token).Natural,
			n.process.Self()) {
			held[name] = true
		}
	}
	return held
}

// prefix is one replay: a node starts with a copy of its disk on which the log ends at an index, while the other nodes
// are up or down.
type prefix struct {
	node   *Node
	others bool
	index  uint64
}

// prefixes returns the replays of every prefix of the log on the given nodes. Prefixes that end before a node's
// snapshot do not exist; CutLog returns where the first one ends.
func prefixes(t *testing.T, c *Cluster, nodes ...*Node) (all []prefix) {
	t.Helper()
	for _, n := range nodes {
		disk := n.afterCrash(false)
		first, err := raftlog.Cut(raftDir, disk, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, others := range []bool{false, true} {
			for index := max(1, first); index <= c.metadata().Epoch; index++ {
				all = append(all, prefix{n, others, index})
			}
		}
	}
	return all
}

// sampled draws n of the prefixes, or all if there are fewer, in their order.
func sampled(all []prefix, n int, r *kernel.Stream) []prefix {
	for len(all) > n {
		i := r.Intn(len(all))
		all = slices.Delete(all, i, i+1)
	}
	return all
}

// replayPrefixes executes each of the replays, and counts the rows that the nodes lack afterwards.
func replayPrefixes(t *testing.T, c *Cluster, replays []prefix) (lost int) {
	t.Helper()
	m := c.metadata()
	placement := m.Topology.Placement(c.replication())
	want := map[*Node]map[string]bool{}
	for _, p := range replays {
		if want[p.node] == nil {
			want[p.node] = heldRows(t, c, p.node, placement)
		}
		if len(want[p.node]) < 20 {
			t.Fatalf("node %d holds %d rows: nothing is tested", p.node.id, len(want[p.node]))
		}
	}
	for _, o := range c.present() {
		o.crash(false)
	}
	for _, p := range replays {
		has := replayPrefix(t, c, p, placement)
		missing := slices.DeleteFunc(slices.Sorted(maps.Keys(want[p.node])),
			func(name string) bool { return has[name] })
		if len(missing) > 0 && lost == 0 {
			t.Logf("node %d, log up to %d of %d, others up: %v: %d of %d rows are gone, such as %v", p.node.id,
				p.index, m.Epoch, p.others,
				len(missing), len(want[p.node]), missing[0])
		}
		lost += len(missing)
	}
	return lost
}

// replayPrefix executes one replay, and returns the rows that the node has afterwards. No process runs before and after
// it, and the node's disk is not changed.
func replayPrefix(t *testing.T, c *Cluster, p prefix, placement *ring.Placement) map[string]bool {
	t.Helper()
	n := p.node
	disk, applied := n.disk, n.applied
	n.disk, n.applied = damage.Whole(disk), 0 // the log is cut on purpose
	if _, err := raftlog.Cut(raftDir, n.encrypted(n.disk), p.index); err != nil {
		t.Fatal(err)
	}
	for _, o := range c.present() {
		if o == n || p.others { // a leader that continued to run would know that this node once had more of the log
			o.start()
		}
	}
	c.kernel.RunUntil(c.kernel.Now()+3*time.Second, func() bool { return false })
	has := heldRows(t, c, n, placement)
	for _, o := range c.present() {
		o.crash(false)
	}
	n.disk, n.applied = disk, applied
	return has
}

func prefixOptions(seed uint64) Options {
	o := RestartsOptions(seed)
	o.Nodes, o.NodesMost, o.Factor, o.Workloads, o.FaultKinds = 4, 10, 3, []string{"restarts"}, nil
	return o
}

// TestEveryPrefixOfTheLog replays prefixes of a long metadata log on nodes with data: no node loses a row that it holds
// by the newest topology, whether or not it receives the rest of the log. The complete variant (-prefixes=all) replays
// every prefix on every node; otherwise the test draws as many as take about 20 s of a core, different ones in each
// run.
func TestEveryPrefixOfTheLog(t *testing.T) {
	seed := *prefixSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("run it again: go test ./simulation -run TestEveryPrefixOfTheLog -args -prefixes=%s -prefix-seed=%d "+
		"-prefix-log=%d",
		*prefixCount, seed, *prefixLog)
	c := recordLog(t, prefixOptions(*prefixLog))
	all, epoch := prefixes(t, c, c.present()...), c.metadata().Epoch
	n, err := strconv.Atoi(*prefixCount)
	switch {
	case *prefixCount == "all":
		n = len(all)
	case err != nil || n < 1:
		t.Fatalf("-prefixes=%s is neither a number nor all", *prefixCount)
	case testing.Short():
		n /= 10
	}
	replays := sampled(all, n, kernel.NewStream(seed, "prefixes"))
	if lost := replayPrefixes(t, c, replays); lost > 0 {
		t.Errorf("%d rows were lost", lost)
	}
	t.Logf("%d of %d prefixes on %d nodes, of a log of %d entries", len(replays), len(all), len(c.present()), epoch)
	for _, f := range c.failures {
		t.Error(f)
	}
}

// TestPrefixesFindReactionsToTheReplay shows that the test above detects a node that acts on metadata that it replays.
func TestPrefixesFindReactionsToTheReplay(t *testing.T) {
	c := recordLog(t, prefixOptions(11))
	// The log is recorded without the mutant.
	mutant.Need(t, "ring/reacts-to-the-replay")
	all := slices.DeleteFunc(prefixes(t, c, c.present()[0]), func(p prefix) bool { return p.others })
	if lost := replayPrefixes(t, c, sampled(all, 60, kernel.NewStream(1, "prefixes"))); lost == 0 {
		t.Error("no row was lost")
	}
}

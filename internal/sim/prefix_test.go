package sim

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/cluster"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// recordLog makes a ring with rows and a long metadata log: nodes join, leave, move and are replaced, tables and keyspaces
// are made, dropped and made again, and replications change.
func recordLog(t *testing.T, o Options) *Cluster {
	t.Helper()
	cryptotest.SetGlobalRandom(t, o.Seed)
	c := NewCluster(o)
	w := c.workloads[0].(*restarts)
	w.launch(o.Clients, 60*time.Millisecond, w.step)
	c.kernel.RunUntil(c.kernel.Now()+3*time.Second, func() bool { return false })
	c.heal()
	c.kernel.RunUntil(c.kernel.Now()+time.Minute, w.idle)
	r := NewStream(o.Seed, "record")
	quiet := func() bool {
		m := c.metadata()
		return len(c.missing()) == 0 && len(m.Topology.Operations()) == 0 && len(m.Unclean) == 0
	}
	calmly := func(what string, f func()) {
		f()
		c.kernel.RunUntil(c.kernel.Now()+time.Second, func() bool { return false })
		if c.kernel.RunUntil(c.kernel.Now()+2*time.Minute, quiet); !quiet() {
			t.Fatalf("%s does not end: %+v", what, c.metadata().Topology.Operations())
		}
	}
	join := func() { c.joinNode(r) }
	leave := func() { n := c.present()[len(c.present())-1]; n.leaving = true; c.decommission(n) }
	move := func() { c.moveNode(r) }
	replace := func() { n := c.present()[1]; n.crash(true); n.wipe(); n.start() }
	tables := func() {
		for range 2 {
			c.change(&schema.CreateKeyspace{Keyspace: "other", Replication: ring.Replication{Class: ring.Simple, Factor: 2}, DurableWrites: true})
			table := textTable("other")
			table.Keyspace = "other"
			c.change(table)
			c.change(&schema.AlterKeyspace{Keyspace: "other", Replication: &ring.Replication{Class: ring.Simple, Factor: 3}})
			c.change(&schema.AlterKeyspace{Keyspace: "other", Replication: &ring.Replication{Class: ring.Simple, Factor: 1}})
			c.change(&schema.DropTable{Keyspace: "other", Table: "other"})
			c.change(table)
			c.change(&schema.DropKeyspace{Keyspace: "other"})
		}
	}
	for i, f := range []func(){join, join, move, tables, leave, move, leave, replace, join, tables, join, leave, leave, move} {
		calmly(fmt.Sprint("step ", i), f)
	}
	return c
}

// heldRows are the rows of table restarts that a node has and holds.
func heldRows(t *testing.T, c *Cluster, n *Node, placement *ring.Placement) map[string]bool {
	t.Helper()
	w := c.workloads[0].(*restarts)
	rows, err := c.rowsOf(n, w.table)
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{}
	for _, r := range w.rows {
		key := w.key(r.partition)
		name := string(key.Bytes) + "/" + r.clustering
		if rows[name] && slices.Contains(placement.Replicas(row.NewPartitionKey(key.Bytes).Token).Natural, n.life.Self()) {
			held[name] = true
		}
	}
	return held
}

// replayPrefixes opens a node on copies of its disk, on which the log ends at each index in turn, with the other nodes up
// and down, and counts the rows that it then lacks.
func replayPrefixes(t *testing.T, c *Cluster, n *Node, others bool, every uint64) (lost int) {
	t.Helper()
	m := c.metadata()
	placement := m.Topology.Placement(c.replication())
	want := heldRows(t, c, n, placement)
	if len(want) < 20 {
		t.Fatalf("node %d holds %d rows: nothing is tested", n.id, len(want))
	}
	n.crash(false)
	disk := n.disk
	for _, o := range c.present() {
		o.crash(false)
	}
	first, prefixes := uint64(1), 0
	for index := uint64(0); index <= m.Epoch; index += every {
		if index < first {
			index = first
		}
		n.disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: newPebbleRand()})
		least, err := cluster.CutLog(raftDir, n.disk, index)
		if err != nil {
			t.Fatal(err)
		}
		if first = least; index < first {
			continue
		}
		prefixes++
		for _, o := range c.present() {
			if o == n || others { // a leader that ran on would know that this node once had more of the log
				o.start()
			}
		}
		c.kernel.RunUntil(c.kernel.Now()+3*time.Second, func() bool { return false })
		has := heldRows(t, c, n, placement)
		if missing := len(want) - len(has); missing > 0 {
			lost += missing
			if lost == missing {
				t.Logf("index %d of %d, others up: %v: %d of %d rows are gone, such as %v", index, m.Epoch, others, missing, len(want),
					slices.Sorted(maps.Keys(want))[0])
			}
		}
		for _, o := range c.present() {
			o.crash(false)
		}
	}
	t.Logf("%d prefixes of a log of %d entries, others up: %v", prefixes, m.Epoch, others)
	n.disk = disk
	for _, o := range c.present() {
		o.start()
	}
	c.kernel.RunUntil(c.kernel.Now()+time.Minute, func() bool { return len(c.missing()) == 0 })
	return lost
}

func prefixOptions() Options {
	o := RestartsOptions(11)
	o.Nodes, o.NodesMost, o.Factor, o.Workloads, o.FaultKinds = 4, 10, 3, []string{"restarts"}, nil
	return o
}

// TestEveryPrefixOfTheLog replays every beginning of a long metadata log on nodes with data: none loses a row that it holds
// by the newest topology, whether it hears of the rest of the log or not.
func TestEveryPrefixOfTheLog(t *testing.T) {
	every := uint64(1)
	if testing.Short() {
		every = 15
	}
	c := recordLog(t, prefixOptions())
	for _, n := range []*Node{c.present()[0], c.present()[2]} {
		for _, others := range []bool{false, true} {
			step := every
			if others {
				step *= 3
			}
			if lost := replayPrefixes(t, c, n, others, step); lost > 0 {
				t.Errorf("node %d lost %d rows", n.id, lost)
			}
		}
	}
	for _, f := range c.failures {
		t.Error(f)
	}
}

// TestPrefixesFindReactionsToTheReplay shows that the test above finds a node that acts on what it replays.
func TestPrefixesFindReactionsToTheReplay(t *testing.T) {
	c := recordLog(t, prefixOptions())
	c.options.ReactToReplay = true
	if lost := replayPrefixes(t, c, c.present()[0], false, 3); lost == 0 {
		t.Error("no row was lost")
	}
}

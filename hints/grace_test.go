package hints_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/scenario"
)

// graceCluster returns four nodes; the first three are the replicas. gc_grace_seconds is one hour.
func graceCluster(t *testing.T) *cluster {
	return newCluster(t, scenario.Options{Datacenters: slices.Repeat([]string{"dc1"}, 4), Owners: 3,
		Replication: ring.Replication{Class: ring.Simple, Factor: 3},
		Table:       func(o *schema.Options) { o.GCGraceSeconds = 3600 }})
}

// setDown sets whether all other nodes consider a node down.
func (c *cluster) setDown(id ring.NodeID, down bool) {
	for _, n := range c.Nodes {
		n.Down[id] = down && n.ID != id
	}
}

// TestReroutedHintExpiresWithItsWrite replaces node 3, for which node 1 has a hint, by node 4, which is down: node 1
// makes a hint for it. gc_grace_seconds counts from the write for both hints.
func TestReroutedHintExpiresWithItsWrite(t *testing.T) {
	for _, x := range []struct {
		up   time.Duration // when node 4 is up, after the write
		want string
	}{
		{55 * time.Minute, "k{a=value@1}"},
		{65 * time.Minute, "nothing"},
	} {
		c := graceCluster(t)
		c.setDown(3, true)
		c.put("a")
		c.Clock.Advance(50 * time.Millisecond)
		c.Clock.Skip(50 * time.Minute)
		c.setDown(4, true)
		nodes := slices.DeleteFunc(slices.Clone(c.Topology(2, c.Options.Datacenters, 4).Nodes()),
			func(n *ring.Node) bool { return n.ID == 3 })
		for _, n := range c.Nodes {
			n.Ring = ring.NewTopology(2, nodes)
		}
		c.replay()
		if n := c.Node(1).Hints.Pending(4); n != 1 {
			t.Fatalf("%d records of hints for node 4", n)
		}
		c.Clock.Skip(x.up - 50*time.Minute)
		c.setDown(4, false)
		c.replay()
		if got := c.has(4); got != x.want {
			t.Errorf("node 4 is up %v after the write and has %s, want %s", x.up, got, x.want)
		}
	}
}

// TestHintOfAHandoverExpiresWithItsWrite hands two hints for node 3 over, which were made 40 minutes apart. The holders
// of the batches make hints of their own, because node 3 is still down.
func TestHintOfAHandoverExpiresWithItsWrite(t *testing.T) {
	c := graceCluster(t)
	c.setDown(3, true)
	write := func(name string) {
		m := &row.Mutation{}
		m.Reset(c.Table.StorageID, row.NewPartitionKey([]byte("k")))
		scenario.AddRow(m, c.Table, name, "value", 1)
		c.Node(4).Coordinator.Write(&coordinator.WriteRequest{Mutations: []*row.Mutation{m}, Consistency: ring.Quorum,
			Type: coordinator.WriteSimple, Timeout: time.Second}, func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
		c.Deliver(math.MaxInt, nil)
	}
	write("earlier")
	c.Clock.Advance(50 * time.Millisecond)
	c.Clock.Skip(40 * time.Minute)
	write("later")
	c.Clock.Advance(time.Second)
	c.leave(4)
	ended := 0
	c.Node(4).HandOver(func(err error) {
		if ended++; err != nil {
			t.Error(err)
		}
	})
	if c.replay(); ended != 1 {
		t.Fatalf("the handover ended %d times", ended)
	}
	c.Clock.Skip(25 * time.Minute)
	c.setDown(3, false)
	c.replay()
	if got := c.has(3); got != "k{later=value@1}" {
		t.Errorf("node 3 has %s 65 minutes after the earlier write and 25 after the later one", got)
	}
}

// TestHintOfABatchExpiresWithTheBatch writes a logged batch whose coordinator fails. Holders replay it 50 minutes
// later, when the first of its replicas are up, and make hints for node 3, which is down for 15 minutes more.
func TestHintOfABatchExpiresWithTheBatch(t *testing.T) {
	c := newCluster(t, scenario.Options{Datacenters: slices.Repeat([]string{"dc1"}, 6), Owners: 3,
		Replication: ring.Replication{Class: ring.Simple, Factor: 3},
		Table:       func(o *schema.Options) { o.GCGraceSeconds = 3600 }})
	top := c.Topology(2, c.Options.Datacenters, 3)
	for _, n := range top.Nodes() {
		n.State = ring.Normal // nodes without tokens hold batches
	}
	for _, n := range c.Nodes {
		n.Ring = top
	}
	var mutations []*row.Mutation
	for _, key := range []string{"k", "other"} {
		m := &row.Mutation{}
		m.Reset(c.Table.StorageID, row.NewPartitionKey([]byte(key)))
		scenario.AddRow(m, c.Table, "a", "value", 1)
		mutations = append(mutations, m)
	}
	for id := ring.NodeID(2); id <= 3; id++ {
		c.setDown(id, true)
	}
	c.Node(4).Down[1] = false
	c.Node(4).Batches.Write(&coordinator.WriteRequest{Mutations: mutations, Consistency: ring.One,
		Type: coordinator.WriteBatch, Timeout: 20 * time.Second}, func(error) {})
	only := func(l scenario.Link) bool { return l.From != 4 || l.To > 4 || l.To == 1 }
	c.Deliver(4, only)
	c.Flight = nil
	c.setDown(1, true)
	c.Node(4).Start()
	held := 0
	for _, n := range c.Nodes {
		held += n.Batches.Held()
	}
	if held == 0 {
		t.Fatal("no node has the batch")
	}
	c.Clock.Skip(50 * time.Minute)
	c.setDown(1, false)
	c.setDown(2, false)
	c.replay()
	c.Clock.Skip(15 * time.Minute)
	if got := c.has(2); got != "k{a=value@1}" {
		t.Errorf("node 2 has %s after the replay", got)
	}
	c.setDown(3, false)
	c.replay()
	if got := c.has(3); got != "nothing" {
		t.Errorf("node 3 has %s 65 minutes after the batch", got)
	}
}

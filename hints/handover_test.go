package hints_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/hints"
	"cqld/ring"
	"cqld/row"
	"cqld/simulation/scenario"
	"cqld/storage"
)

// TestHintsAreWrittenBeforeANodeLeaves decommissions a node that has the only copy of a write at ANY: a hint for each
// replica. The handover passes the hints to other nodes, which write them to all replicas, including one that the
// leaving node considers dead. A hint of a leaving node does not satisfy ANY.
func TestHintsAreWrittenBeforeANodeLeaves(t *testing.T) {
	c := hintedCluster(t, func(e *storage.Engine) hints.Store { return e })
	n := c.Node(4)
	for id := ring.NodeID(1); id <= 3; id++ {
		n.Down[id] = true
	}
	write := func(name string, stamp int64) (err error) {
		m := &row.Mutation{}
		m.Reset(c.Table.StorageID, row.NewPartitionKey([]byte("k")))
		scenario.AddRow(m, c.Table, name, "value", stamp)
		err = errors.New("no answer")
		n.Coordinator.Write(&coordinator.WriteRequest{Mutations: []*row.Mutation{m}, Consistency: ring.Any,
			Type:    coordinator.WriteSimple,
			Timeout: time.Second}, func(answer error) { err = answer })
		c.Deliver(math.MaxInt, nil)
		c.Clock.Advance(2 * time.Second)
		c.Deliver(math.MaxInt, nil)
		return err
	}
	if err := write("before", 1); err != nil {
		t.Fatal(err)
	}
	c.leave(4)
	var unavailable *coordinator.Unavailable
	if err := write("after", 2); !errors.As(err, &unavailable) {
		t.Errorf("a write at ANY by a node that leaves, with all replicas down: %v", err)
	}
	ended := 0
	n.HandOver(func(err error) {
		if ended++; err != nil {
			t.Error(err)
		}
	})
	if c.replay(); ended != 0 {
		t.Fatal("the handover ended while no replica was alive")
	}
	delete(n.Down, 1)
	delete(n.Down, 2)
	if c.replay(); ended != 1 {
		t.Fatalf("the handover ended %d times", ended)
	}
	for id := ring.NodeID(1); id <= 3; id++ {
		if got := c.has(id); got == "nothing" {
			t.Errorf("node %d does not have the write", id)
		}
	}
	for id := ring.NodeID(1); id <= 3; id++ {
		if k := n.Hints.Pending(id); k != 0 {
			t.Errorf("%d hints for node %d are left", k, id)
		}
	}
}

// leave sets node id to Leaving in every node's topology.
func (c *cluster) leave(id ring.NodeID) {
	var members []*ring.Node
	for _, m := range c.Node(id).Ring.Nodes() {
		member := *m
		if member.ID == id {
			member.State = ring.Leaving
		}
		members = append(members, &member)
	}
	top := ring.NewTopology(c.Node(id).Ring.Epoch()+1, members)
	for _, n := range c.Nodes {
		n.Ring = top
	}
}

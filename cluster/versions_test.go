package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"cqld/cluster/liveness"
	"cqld/ring"
	"cqld/schema"
	"cqld/schema/refused"
)

// keyspaceChange is the change of createKeyspace.
func keyspaceChange(name string) schema.Change {
	return &schema.CreateKeyspace{Keyspace: name, DurableWrites: true,
		Replication: ring.Replication{Class: ring.Simple, Factor: 4}}
}

// ringWithDeafNode starts a ring of four. Its last node receives no metadata while deaf is set, but is alive.
func ringWithDeafNode(t *testing.T, deaf *atomic.Bool) (nodes []*testNode) {
	nodes = startRing(t, 3)
	last := newTestNode(t, 4, nodes[0].addr)
	deafen(last, deaf)
	nodes = append(nodes, last.mustOpen())
	eventually(t, func() bool {
		return !slices.ContainsFunc(nodes, func(n *testNode) bool {
			return slices.ContainsFunc(nodes, func(peer *testNode) bool {
				return !n.Alive(peer.Self()) || n.SchemaVersion(peer.Self()) != n.Metadata().Schema.Version()
			})
		})
	})
	return nodes
}

// TestClientsSeeWhichNodesLackTheSchema makes a change that one live node does not receive. Until the node has it, all
// nodes report different versions, as drivers read them, and no definition that depends on the change returns: neither
// the change, nor its refusal when it is repeated.
func TestClientsSeeWhichNodesLackTheSchema(t *testing.T) {
	var deaf atomic.Bool
	nodes := ringWithDeafNode(t, &deaf)
	deaf.Store(true)
	behind := nodes[3]
	answers := make(chan error, 3)
	change := func(n *testNode) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := n.ProposeSchema(ctx, keyspaceChange("late"))
		if exists := (*refused.Exists)(nil); errors.As(err, &exists) {
			err = nil
		}
		if err == nil && behind.Metadata().Schema.Keyspace("late") == nil {
			err = fmt.Errorf("node %d answered before node %d had the keyspace", n.Self(), behind.Self())
		}
		answers <- err
	}
	go change(nodes[0])
	eventually(t, func() bool {
		lacks := func(n *testNode) bool { return n.Metadata().Schema.Keyspace("late") == nil }
		return !slices.ContainsFunc(nodes[:3], lacks)
	})
	go change(nodes[1]) // refused, because it exists
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		err := nodes[2].AwaitSchema(ctx)
		if err == nil && behind.Metadata().Schema.Keyspace("late") == nil {
			err = errors.New("AwaitSchema returned too early")
		}
		answers <- err
	}()
	differ := func() bool {
		old, now := behind.Metadata().Schema.Version(), nodes[0].Metadata().Schema.Version()
		for _, n := range nodes[:3] {
			if n.SchemaVersion(behind.Self()) != old || behind.SchemaVersion(n.Self()) != now {
				return false
			}
		}
		return old != now
	}
	eventually(t, differ)
	for range 20 { // heartbeats come, and change nothing
		time.Sleep(liveness.HeartbeatEvery / 10)
		if !differ() && deaf.Load() {
			t.Fatal("the nodes appear to agree")
		}
	}
	deaf.Store(false)
	for range 3 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	eventually(t, func() bool { return nodes[0].SchemaVersion(behind.Self()) == nodes[0].Metadata().Schema.Version() })
}

// TestLostPeersDoNotDisagree stops a node and changes the schema: drivers that wait for schema agreement need not wait
// for the stopped node.
func TestLostPeersDoNotDisagree(t *testing.T) {
	nodes := startRing(t, 4)
	gone := nodes[3].Self()
	nodes[3].stop()
	eventually(t, func() bool { return !nodes[0].Alive(gone) })
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return nodes[0].SchemaVersion(gone) == nodes[0].Metadata().Schema.Version() })
}

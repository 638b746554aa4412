package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/ring"
)

// follow makes the nodes act like their owners until nothing is left to do. An operation of a node that is not among
// them would never end: see report.
func follow(t *testing.T, nodes ...*testNode) {
	t.Helper()
	eventually(t, func() bool { return report(nodes...) })
}

// report makes the nodes act like their owners once: report their gained ranges as streamed and as compared, and their
// lost ranges as dropped. It reports whether there was nothing to do.
func report(nodes ...*testNode) bool {
	idle := true
	for _, n := range nodes {
		m := n.Metadata()
		for _, o := range m.Topology.Operations() {
			idle = false
			if o.Phase == ring.Streaming && slices.Contains(o.Gaining, n.Self()) &&
				!slices.Contains(o.Streamed, n.Self()) {
				n.Operations().StartStreamed(o.ID, nil, func(error) {})
			}
			if o.Hands && !o.Handed && o.Node == n.Self() {
				n.Operations().StartHanded(o.ID, func(error) {})
			}
			if o.Known && slices.Contains(o.Gaining, n.Self()) && !slices.Contains(o.Compared, n.Self()) {
				n.Operations().StartCompared(o.ID, nil, func(error) {})
			}
		}
		for _, u := range m.PendingCleanup {
			idle = false
			if u.Node == n.Self() {
				n.Operations().StartCleaned(u.Epoch, func(error) {})
			}
		}
	}
	time.Sleep(20 * time.Millisecond)
	return idle
}

func TestTheRingGrowsAndShrinks(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	fifth := newTestNode(t, 5, nodes[0].addr).mustOpen()
	o := fifth.Metadata().Topology.Operations()
	if len(o) != 1 || o[0].Kind != ring.Join || !slices.Equal(o[0].Gaining, []ring.NodeID{fifth.Self()}) ||
		o[0].Phase != ring.Streaming {
		t.Fatalf("%+v", o)
	}
	sixth := newTestNode(t, 6, nodes[0].addr)
	joined := make(chan error, 1)
	go func() { joined <- sixth.open() }()
	select {
	case err := <-joined:
		t.Fatalf("a second node joined while the first did: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	all := append(slices.Clone(nodes), fifth)
	eventually(t, func() bool { // the sixth may be in progress before all five have applied the fifth's end
		report(all...)
		select {
		case err := <-joined:
			if err != nil {
				t.Fatal(err)
			}
			return true
		default:
			return false
		}
	})
	all = append(all, sixth)
	follow(t, all...)
	if n := len(nodes[0].Metadata().Topology.Tokens()); n != 96 {
		t.Errorf("%d tokens", n)
	}

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, n := range []*testNode{fifth, nodes[0]} { // one of them leads, or has led
		id, err := n.Operations().Decommission(ctx, false)
		if err != nil || id == 0 {
			t.Fatal(id, err)
		}
		follow(t, all...)
		if err := n.Operations().Await(ctx, id); err != nil {
			t.Fatal(err)
		}
		all = slices.DeleteFunc(all, func(x *testNode) bool { return x == n })
	}
	m := nodes[1].Metadata()
	if len(m.Topology.Nodes()) != 4 || len(m.Topology.Tokens()) != 64 || len(m.Removed) != 2 {
		t.Errorf("%d nodes, %d tokens, removed %+v", len(m.Topology.Nodes()), len(m.Topology.Tokens()), m.Removed)
	}
	eventually(t, func() bool { // both have been removed from Raft's membership, too
		voters, learners := nodes[1].conf()
		return voters == 3 && learners == 1
	})
	if err := createKeyspace(nodes[2], "after"); err != nil {
		t.Error(err)
	}
	if _, err := nodes[1].Operations().Decommission(ctx, false); err == nil ||
		!strings.Contains(err.Error(), "Not enough live nodes to maintain replication factor in keyspace") {
		t.Errorf("got %v", err)
	}
	nodes[0].stop()
	if err := nodes[0].open(); err == nil || !strings.Contains(err.Error(), "was decommissioned") {
		t.Errorf("a former member was admitted again: %v", err)
	}
}

func TestDeadNodeIsReplacedOrRemoved(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	dead := nodes[3]
	id := dead.Self()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := nodes[0].Operations().RemoveNode(ctx, id, true); err == nil ||
		!strings.Contains(err.Error(), "is alive") {
		t.Errorf("got %v", err)
	}
	dead.stop()
	eventually(t, func() bool { return !nodes[0].Alive(id) && !nodes[1].Alive(id) && !nodes[2].Alive(id) })
	wiped := newTestNode(t, 7, nodes[0].addr)
	wiped.addr = dead.addr
	if err := wiped.open(); err == nil || !strings.Contains(err.Error(), "--replace") {
		t.Fatalf("a wiped disk joined: %v", err)
	}
	wiped.stop()
	wiped = newTestNode(t, 8, nodes[0].addr)
	wiped.addr, wiped.replace = dead.addr, dead.addr.String()
	wiped.mustOpen()
	live := append(nodes[:3:3], wiped)
	follow(t, live...)
	topology := nodes[0].Metadata().Topology
	if n := topology.Node(wiped.Self()); topology.Node(id) != nil || n == nil || n.State != ring.Normal ||
		len(n.Tokens) != 16 {
		t.Errorf("after the replacement: %+v", n)
	}

	// The option of the first start may remain set, even if the node returns at another address.
	wiped.stop()
	wiped.addr, wiped.replace = newAddr(), dead.HostID().String()
	wiped.mustOpen()

	wiped.stop()
	eventually(t, func() bool { return !nodes[0].Alive(wiped.Self()) })
	// Fewer nodes than replicas remain, but no live replica is removed.
	if _, err := nodes[0].Operations().RemoveNode(ctx, wiped.Self(), false); err != nil {
		t.Fatal(err)
	}
	follow(t, nodes[:3]...)
	if n := len(nodes[0].Metadata().Topology.Nodes()); n != 3 {
		t.Errorf("%d nodes", n)
	}
}

func TestAbortedJoinLeavesNoState(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	before := nodes[0].Metadata().Topology.Tokens()
	fifth := newTestNode(t, 5, nodes[0].addr).mustOpen()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := nodes[1].Operations().Abort(ctx, fifth.Metadata().Topology.Operations()[0].ID); err != nil {
		t.Fatal(err)
	}
	m := nodes[1].Metadata()
	if len(m.Topology.Nodes()) != 4 || !slices.Equal(m.Topology.Tokens(), before) || len(m.Topology.Operations()) != 0 {
		t.Errorf("%+v", m.Topology)
	}
	follow(t, nodes...)
	if id, err := nodes[2].Operations().Move(ctx, nil); err != nil || id == 0 {
		t.Fatal(id, err)
	}
	follow(t, nodes...)
	if n := nodes[0].Metadata().Topology.Node(nodes[2].Self()); n.State != ring.Normal || len(n.Tokens) != 16 {
		t.Errorf("after the move: %+v", n)
	}
}

// TestDeadNodeDuringOperation checks the remedy if a node dies permanently while the ring changes, in either phase: the
// operation that waits for it is aborted, and then the node is removed.
func TestDeadNodeDuringOperation(t *testing.T) {
	for _, switching := range []bool{false, true} {
		t.Run(fmt.Sprint("switching=", switching), func(t *testing.T) {
			nodes := startRing(t, 4)
			if err := createKeyspace(nodes[0], "ks"); err != nil {
				t.Fatal(err)
			}
			before := nodes[0].Metadata().Topology.Tokens()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			fifth := newTestNode(t, 5, nodes[0].addr).mustOpen()
			dead, o := fifth.Self(), fifth.Metadata().Topology.Operations()[0]
			if switching {
				fifth.Operations().StartStreamed(o.ID, nil, func(error) {})
				eventually(t, func() bool { return nodes[0].Metadata().Topology.Operation(o.ID).Known })
			}
			fifth.stop()
			eventually(t, func() bool { return !nodes[0].Alive(dead) && !nodes[1].Alive(dead) })
			_, err := nodes[0].Operations().RemoveNode(ctx, dead, false)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint("cqld ctl abort ", o.ID)) {
				t.Fatalf("the error does not state a remedy: %v", err)
			}
			if err := nodes[1].Operations().Abort(ctx, o.ID); err != nil {
				t.Fatal(err)
			}
			follow(t, nodes...)
			m := nodes[1].Metadata()
			if len(m.Topology.Nodes()) != 4 || !slices.Equal(m.Topology.Tokens(), before) ||
				len(m.Topology.Operations()) != 0 {
				t.Errorf("%+v", m.Topology)
			}
			newTestNode(t, 6, nodes[0].addr).mustOpen()
		})
	}
}

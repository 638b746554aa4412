package cluster

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"cqld/ring"
)

// A node that has left waits for a node that has not applied the departure, and returns the previous ring in the
// meantime.
func TestDepartedNodeAwaitsAllOthers(t *testing.T) {
	nodes := startRing(t, 3)
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	var deaf atomic.Bool
	late := newTestNode(t, 4, nodes[0].addr)
	deafen(late, &deaf)
	leaver := newTestNode(t, 5, nodes[0].addr)
	for _, n := range []*testNode{late, leaver} {
		n.mustOpen()
		nodes = append(nodes, n)
		follow(t, nodes...)
	}
	eventually(t, func() bool { return leaver.Alive(late.Self()) })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := leaver.Operations().Decommission(ctx, false); err != nil {
		t.Fatal(err)
	}
	held := nodes[1] // it has not compared, so the operation does not end
	eventually(t, func() bool {
		report(nodes[0], nodes[2], late, leaver)
		for _, o := range held.Metadata().Topology.Operations() {
			if o.Phase == ring.Streaming && !slices.Contains(o.Streamed, held.Self()) {
				held.Operations().StartStreamed(o.ID, nil, func(error) {})
			}
		}
		o := late.Metadata().Topology.Operations()
		return len(o) == 1 && slices.Contains(o[0].Compared, late.Self())
	})
	deaf.Store(true)
	eventually(t, func() bool {
		report(nodes...)
		return leaver.Metadata().Topology.Node(leaver.Self()) == nil
	})
	if n := leaver.LastRing().Node(leaver.Self()); n == nil || len(n.Tokens) != 16 {
		t.Errorf("the departing node shows itself as %+v", n)
	}
	short, stop := context.WithTimeout(ctx, 500*time.Millisecond)
	defer stop()
	if err := leaver.AwaitDeparture(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the departing node stopped waiting with %v, although one node does not know of its departure", err)
	}
	deaf.Store(false)
	if err := leaver.AwaitDeparture(ctx); err != nil {
		t.Error(err)
	}
	for i, n := range nodes[:4] {
		if n.LastRing().Node(leaver.Self()) != nil {
			t.Errorf("node %d does not know yet", i+1)
		}
	}
}

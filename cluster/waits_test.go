package cluster

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestSeedNamesTheMissingMajority stops two of three voters. A joining node then reports that it waits for a majority,
// and the remaining voter names the dead ones.
func TestSeedNamesTheMissingMajority(t *testing.T) {
	nodes := startRing(t, 3)
	eventually(t, func() bool { return len(votersOf(t, nodes[0])) == 3 })
	nodes[1].stop()
	nodes[2].stop()
	eventually(t, func() bool { return nodes[0].MajorityError() != nil })
	v := nodes[0].Voters()
	if err := nodes[0].MajorityError(); v.Alive != 1 || v.Required != 2 || len(v.Down) != 2 ||
		!strings.Contains(err.Error(), nodes[1].addr.Addr().String()) {
		t.Errorf("%+v: %v", v, err)
	}
	joins := newTestNode(t, 4, nodes[0].addr)
	joins.limit = 3 * time.Second
	err := joins.open()
	if err == nil || !strings.Contains(err.Error(), "the seed answers, but only 1 of the metadata voters are alive "+
		"and 2 are needed") {
		t.Errorf("without a majority: %v", err)
	}
	joins.stop()
	nodes[1].mustOpen()
	eventually(t, func() bool { return nodes[0].MajorityError() == nil })
	if err := createKeyspace(nodes[0], "after"); err != nil {
		t.Error(err)
	}
}

// TestOperationNamesWhatItWaitsFor begins a removal and stops a node that gains ranges before it has streamed them.
func TestOperationNamesWhatItWaitsFor(t *testing.T) {
	nodes := startRing(t, 5)
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	dead := nodes[4]
	dead.stop()
	eventually(t, func() bool { return !nodes[0].Alive(dead.Self()) })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id, err := nodes[0].Operations().RemoveNode(ctx, dead.Self(), false)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		return strings.Contains(nodes[0].Operations().Waits(id), "nodes to stream the ranges that they gain: ")
	})
	if err := nodes[0].Operations().Abort(ctx, id); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return nodes[0].Operations().Waits(id) == "" })
}

package cluster

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"cqld/ring"
	"cqld/schema/refused"
)

// TestChangesWithoutAMajorityAreRefused stops two of three voters. Changes are refused in time, and are not made when
// the voters restart.
func TestChangesWithoutAMajorityAreRefused(t *testing.T) {
	nodes := startRing(t, 3)
	eventually(t, func() bool { return len(votersOf(t, nodes[0])) == 3 })
	nodes[1].stop()
	nodes[2].stop()
	eventually(t, func() bool { return !nodes[0].Alive(nodes[1].Self()) && !nodes[0].Alive(nodes[2].Self()) })
	want := refused.Unavailable{Required: 2, Alive: 1}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	_, left := nodes[0].Operations().Decommission(ctx, false)
	for what, err := range map[string]error{"a definition": createKeyspace(nodes[0], "ks"), "a decommission": left} {
		var unavailable *refused.Unavailable
		if !errors.As(err, &unavailable) || *unavailable != want {
			t.Errorf("%s without a majority: %v", what, err)
		}
	}
	if took := time.Since(began); took < 2*majorityWait || took > patience {
		t.Errorf("two changes are refused after %v", took)
	}
	nodes[1].mustOpen()
	if err := createKeyspace(nodes[0], "after"); err != nil {
		t.Error(err)
	}
	if m := nodes[0].Metadata(); m.Schema.Keyspace("ks") != nil || len(m.Topology.Operations()) != 0 {
		t.Error("a refused change was made")
	}
}

// TestChangeWaitsForRestartingVoters proposes a change while two of three voters restart.
func TestChangeWaitsForRestartingVoters(t *testing.T) {
	nodes := startRing(t, 3)
	eventually(t, func() bool { return len(votersOf(t, nodes[0])) == 3 })
	nodes[1].stop()
	nodes[2].stop()
	eventually(t, func() bool { return !nodes[0].Alive(nodes[1].Self()) && !nodes[0].Alive(nodes[2].Self()) })
	created := make(chan error, 1)
	go func() { created <- createKeyspace(nodes[0], "ks") }()
	nodes[1].mustOpen()
	if err := <-created; err != nil {
		t.Error(err)
	}
}

// votersOf returns the voters that a node knows.
func votersOf(t *testing.T, n *testNode) []uint64 {
	t.Helper()
	voters := make(chan []uint64, 1)
	if !n.loop.post(func() { voters <- n.driver.conf.GetVoters() }) {
		t.Fatal("the queue is full")
	}
	return <-voters
}

// TestMajorityExcludesFormerMember makes one of three voters leave, and stops it before it learns of its removal. One
// of the two remaining members is a voter too many; if it were removed instead of the former member, no majority would
// be left.
func TestMajorityExcludesFormerMember(t *testing.T) {
	first := newTestNode(t, 1).mustOpen()
	leaver := newTestNode(t, 2, first.addr)
	var deaf atomic.Bool
	deafen(leaver, &deaf)
	leaver.mustOpen()
	third := newTestNode(t, 3, first.addr).mustOpen()
	nodes := []*testNode{first, leaver, third}
	eventually(t, func() bool {
		return !slices.ContainsFunc(nodes, func(n *testNode) bool { v, _ := n.conf(); return v != 3 || !n.Alive(3) })
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id, err := leaver.Operations().Decommission(ctx, false)
	if err != nil || id == 0 {
		t.Fatal(id, err)
	}
	eventually(t, func() bool {
		return !slices.ContainsFunc(nodes, func(n *testNode) bool { return n.Metadata().Topology.Operation(id) == nil })
	})
	deaf.Store(true)
	first.Operations().StartHanded(id, func(error) {})
	eventually(t, func() bool { return first.Metadata().RemovedAt(leaver.Self()) != 0 })
	eventually(t, func() bool { v, _ := first.conf(); return v < 3 })
	leaver.stop()
	short, end := context.WithTimeout(ctx, 30*time.Second)
	defer end()
	if _, err := first.Operations().Move(short, []ring.Token{1, 2, 3}); err != nil {
		t.Fatalf("the ring decides nothing: %v", err)
	}
	eventually(t, func() bool { v, l := first.conf(); return v == 1 && l == 1 })
}

package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"cqld/schema"
)

// TestChangesWithoutAMajorityAreRefused stops two of three voters. Changes are refused in time, and are not made when
// the voters restart.
func TestChangesWithoutAMajorityAreRefused(t *testing.T) {
	nodes := startRing(t, 3)
	eventually(t, func() bool { return len(votersOf(t, nodes[0])) == 3 })
	nodes[1].stop()
	nodes[2].stop()
	eventually(t, func() bool { return !nodes[0].Alive(nodes[1].Self()) && !nodes[0].Alive(nodes[2].Self()) })
	want := schema.Unavailable{Required: 2, Alive: 1}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	_, left := nodes[0].Decommission(ctx, false)
	for what, err := range map[string]error{"a definition": createKeyspace(nodes[0], "ks"), "a decommission": left} {
		var unavailable *schema.Unavailable
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
	if !n.post(func() { voters <- n.driver.conf.GetVoters() }) {
		t.Fatal("the queue is full")
	}
	return <-voters
}

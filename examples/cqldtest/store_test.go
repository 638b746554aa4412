package cqldtest

import (
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/cqldtest"
)

// TestStoreSurvivesNode uses a store while one of the four nodes is dead: QUORUM is two of the three replicas.
func TestStoreSurvivesNode(t *testing.T) {
	ring := cqldtest.Start(t, cqldtest.Nodes(4))
	cluster := gocql.NewCluster(ring.Addresses()...)
	cluster.Port = ring.Port()
	cluster.Consistency = gocql.Quorum
	cluster.Timeout = 10 * time.Second
	// An idempotent request that was sent to the dead node is repeated on another one.
	cluster.RetryPolicy = &gocql.SimpleRetryPolicy{NumRetries: 3}
	store, err := Open(cluster)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()

	if added, err := store.Add(1, "Ada"); err != nil || !added {
		t.Fatalf("added %t, %v", added, err)
	}
	ring.Node(3).Kill()
	if name, err := store.Name(1); err != nil || name != "Ada" {
		t.Errorf("the name is %q, %v", name, err)
	}
	if added, err := store.Add(1, "Grace"); err != nil || added {
		t.Errorf("added a second user with the same id: %t, %v", added, err)
	}
}

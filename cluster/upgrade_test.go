package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"

	"cqld/cluster/metadata"
	"cqld/clusterversion"
)

// restartAs starts a node again with a build that supports other cluster versions.
func (n *testNode) restartAs(low, high clusterversion.Version) error {
	n.stop()
	n.versions = clusterversion.Range{Min: low, Max: high}
	return n.open()
}

// finalizeAt calls Finalize.
func finalizeAt(n *testNode) (clusterversion.Version, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return n.Upgrade().Finalize(ctx)
}

// TestRollingUpgrade restarts the nodes of a ring one after the other with a build that supports version 2, downgrades
// one, and finalizes: from then on, a node with the old build can neither start nor join.
func TestRollingUpgrade(t *testing.T) {
	nodes := startRing(t, 3)
	recorded := func(of *testNode, want clusterversion.Version) {
		t.Helper()
		eventually(t, func() bool {
			for _, n := range nodes {
				r, ok := n.Upgrade().Versions(of.Self())
				if !ok || r.Max != want || n.Metadata().Topology.Node(of.Self()).Versions.Max != want {
					return false
				}
			}
			return true
		})
	}
	for i, n := range nodes {
		if err := n.restartAs(1, 2); err != nil {
			t.Fatal(err)
		}
		recorded(n, 2)
		if v, err := finalizeAt(n); i < 2 && (v != 1 || err != nil) {
			t.Fatalf("finalized with %d of 3 nodes: %d, %v", i+1, v, err)
		} else if i == 1 { // back and forth
			if err := n.restartAs(1, 1); err != nil {
				t.Fatal(err)
			}
			recorded(n, 1)
			if err := n.restartAs(1, 2); err != nil {
				t.Fatal(err)
			}
			recorded(n, 2)
		}
	}
	for _, n := range nodes {
		if v := n.Metadata().ClusterVersion; v != 2 {
			t.Errorf("node %d has version %d", n.Self(), v)
		}
	}
	// A downgrade after that is refused by the node's own log.
	last := nodes[2]
	// The loop reports the reason before it stops; the start may only return that it has stopped.
	reason := make(chan error, 1)
	last.fatal = func(err error) {
		select {
		case reason <- err:
		default: // the first one counts
		}
	}
	if err := last.restartAs(1, 1); err == nil {
		t.Fatal("started with the old build")
	} else if !strings.Contains(err.Error(), "the upgrade was finalized") {
		if cause := <-reason; !strings.Contains(cause.Error(), "the upgrade was finalized") {
			t.Fatalf("refused the old build: %v, %v", err, cause)
		}
	}
	if err := last.restartAs(2, 3); err != nil {
		t.Fatal(err)
	}
	recorded(last, 3)
	joining := newTestNode(t, 4, nodes[0].addr)
	joining.versions = clusterversion.Range{Min: 1, Max: 1}
	var refused *metadata.Refused
	if err := joining.open(); !errors.As(err, &refused) || !strings.Contains(refused.Reason, "start a newer build") {
		t.Fatalf("joined with the old build: %v", err)
	}
}

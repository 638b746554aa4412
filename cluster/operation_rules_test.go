package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cqld/ring"
	"cqld/schema"
)

// TestDecommissionKeepsEnoughNodes checks which departures are refused: those after which a data center of a keyspace, or
// the ring of a keyspace without data centers, would have fewer nodes than replicas. Joining nodes do not count.
func TestDecommissionKeepsEnoughNodes(t *testing.T) {
	simple := func(factor int) ring.Replication { return ring.Replication{Class: ring.Simple, Factor: factor} }
	network := func(a, b int) ring.Replication {
		return ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: a}, ring.DatacenterFactor{Datacenter: "b", Factor: b})
	}
	for _, c := range []struct {
		name        string
		datacenters string // of the members, by a letter each; the first one leaves
		joins       string // of a node that joins meanwhile
		r           ring.Replication
		refused     string // the place in the refusal
	}{
		{"as many as replicas are left", "aaa", "", simple(2), ""},
		{"fewer than replicas would be left", "aaa", "", simple(3), "ring"},
		{"there were too few before", "aaa", "", simple(4), "ring"},
		{"other data centers count without data centers", "aabb", "", simple(3), ""},
		{"other data centers do not count", "aabbbb", "", network(2, 2), "a"},
		{"a data center has enough", "aaabb", "", network(2, 2), ""},
		{"another data center is short", "aaab", "", network(2, 2), ""},
		{"a node that joins does not count", "aaab", "b", network(3, 1), "a"},
		{"a node that joins does not count in the ring", "aaa", "b", simple(3), "ring"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := emptyMetadata()
			var nodes []*ring.Node
			for i, dc := range c.datacenters + c.joins {
				n := &ring.Node{ID: ring.NodeID(i + 1), Datacenter: string(dc), Rack: "r1", State: ring.Normal, Tokens: []ring.Token{ring.Token(i) << 59}}
				if i >= len(c.datacenters) {
					n.State = ring.Joining
				}
				nodes = append(nodes, n)
			}
			m.Topology = ring.NewTopology(5, nodes)
			var err error
			if m.Schema, err = schema.Apply(m.Schema, &schema.CreateKeyspace{Keyspace: "ks", Replication: c.r}); err != nil {
				t.Fatal(err)
			}
			where, left, want := m.shortOf(c.r, nodes[0])
			if (left < want) != (c.refused != "") || left < want && where != c.refused {
				t.Errorf("%d nodes are left in %q of %d wanted", left, where, want)
			}
			err = applyBegin(m, &beginCommand{Kind: ring.Leave, Node: 1}, 6)
			if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), "Not enough live nodes to maintain replication factor in keyspace ks ("+c.refused)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestRemovalDoesNotWaitForDeadNode removes a dead node while another node has not dropped a range that the dead one gained
// from it. The drop requires that half of the range's replicas are up. With one replica that never happens: the removal is
// refused permanently unless it is forced. With more replicas the others answer (rebalance.Drops), so the wait ends.
func TestRemovalDoesNotWaitForDeadNode(t *testing.T) {
	for factor := 1; factor <= 3; factor++ {
		m := emptyMetadata()
		var nodes []*ring.Node
		for i := range 4 {
			nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Datacenter: "a", Rack: "r1", State: ring.Normal, Tokens: []ring.Token{ring.Token(i) << 59}})
		}
		m.Topology = ring.NewTopology(5, nodes)
		var err error
		r := ring.Replication{Class: ring.Simple, Factor: factor}
		if m.Schema, err = schema.Apply(m.Schema, &schema.CreateKeyspace{Keyspace: "ks", Replication: r}); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes[1:] {
			m.PendingCleanup = append(m.PendingCleanup, PendingCleanup{n.ID, 5})
		}
		forced := *m
		var refused *Refused
		if err := applyBegin(m, &beginCommand{Kind: ring.Remove, Node: 1}, 6); !errors.As(err, &refused) || refused.Busy != (factor > 1) ||
			factor == 1 && !strings.Contains(refused.Reason, "Use --force if it is lost anyway") {
			t.Errorf("%d replicas: %v, busy: %v", factor, err, refused != nil && refused.Busy)
		}
		if err := applyBegin(&forced, &beginCommand{Kind: ring.Remove, Node: 1, Force: true}, 6); err != nil {
			t.Errorf("%d replicas, forced: %v", factor, err)
		}
	}
}

// TestQuorumInCountsEachDataCenter checks which sets of nodes delay an operation: those that are a quorum of all replicas, or of the
// replicas of a data center.
func TestQuorumInCountsEachDataCenter(t *testing.T) {
	var nodes []*ring.Node
	for i, dc := range "aaabbb" {
		nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Datacenter: string(dc), State: ring.Normal})
	}
	topology := ring.NewTopology(5, nodes)
	network := ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 3}, ring.DatacenterFactor{Datacenter: "b", Factor: 3})
	uneven := ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 1}, ring.DatacenterFactor{Datacenter: "b", Factor: 3})
	simple := ring.Replication{Class: ring.Simple, Factor: 3}
	all := []ring.NodeID{1, 2, 3, 4, 5, 6}
	for _, c := range []struct {
		name   string
		r      ring.Replication
		nodes  []ring.NodeID
		behind []ring.NodeID
		want   bool
	}{
		{"none", network, all, nil, false},
		{"one of each data center", network, all, []ring.NodeID{1, 4}, false},
		{"two of one data center", network, all, []ring.NodeID{1, 2}, true},
		{"all of one data center", network, all, []ring.NodeID{4, 5, 6}, true},
		{"those that are no replicas do not count", network, []ring.NodeID{1, 4, 5, 6}, []ring.NodeID{1, 2, 3}, false},
		{"the only replica of a data center", uneven, []ring.NodeID{1, 4, 5, 6}, []ring.NodeID{1}, true},
		{"one of three of a data center", uneven, []ring.NodeID{1, 4, 5, 6}, []ring.NodeID{4}, false},
		{"one of three", simple, []ring.NodeID{1, 2, 4}, []ring.NodeID{1}, false},
		{"two of three", simple, []ring.NodeID{1, 2, 4}, []ring.NodeID{1, 4}, true},
		{"a node that is no member", simple, []ring.NodeID{1, 2, 9}, []ring.NodeID{1, 9}, false},
	} {
		if got := quorumIn(topology, c.r, c.nodes, func(id ring.NodeID) bool { return slices.Contains(c.behind, id) }); got != c.want {
			t.Errorf("%s: %v of %v are a quorum: %v, want %v", c.name, c.behind, c.nodes, got, c.want)
		}
	}
}

package metadata

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cqld/ring"
	"cqld/schema"
)

// TestDecommissionKeepsEnoughNodes checks which departures are refused: those after which a data center of a keyspace,
// or the ring of a keyspace without data centers, would have fewer nodes than replicas. Joining nodes do not count.
func TestDecommissionKeepsEnoughNodes(t *testing.T) {
	simple := func(factor int) ring.Replication { return ring.Replication{Class: ring.Simple, Factor: factor} }
	network := func(a, b int) ring.Replication {
		return ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: a},
			ring.DatacenterFactor{Datacenter: "b", Factor: b})
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
			m := Empty()
			var nodes []*ring.Node
			for i, dc := range c.datacenters + c.joins {
				n := &ring.Node{ID: ring.NodeID(i + 1), Datacenter: string(dc), Rack: "r1", State: ring.Normal,
					Tokens: []ring.Token{ring.Token(i) << 59}}
				if i >= len(c.datacenters) {
					n.State = ring.Joining
				}
				nodes = append(nodes, n)
			}
			m.Topology = ring.NewTopology(5, nodes)
			var err error
			if m.Schema, err = schema.Apply(m.Schema, &schema.CreateKeyspace{Keyspace: "ks",
				Replication: c.r}); err != nil {
				t.Fatal(err)
			}
			where, left, want := m.shortOf(c.r, nodes[0])
			if (left < want) != (c.refused != "") || left < want && where != c.refused {
				t.Errorf("%d nodes are left in %q of %d wanted", left, where, want)
			}
			err = applyBegin(m, &Begin{Kind: ring.Leave, Node: 1}, 6)
			if c.refused == "" && err != nil || c.refused != "" &&
				(err == nil || !strings.Contains(err.Error(),
					"Not enough live nodes to maintain replication factor in keyspace ks ("+c.refused)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestRemovalDoesNotWaitForDeadNode removes a dead node while another node has not dropped a range that the dead one
// gained from it. The drop requires that half of the range's replicas are up. With one replica that never happens: the
// removal is refused permanently unless it is forced. With more replicas the others answer (rebalance.Drops), so the
// wait ends.
func TestRemovalDoesNotWaitForDeadNode(t *testing.T) {
	for factor := 1; factor <= 3; factor++ {
		m := Empty()
		var nodes []*ring.Node
		for i := range 4 {
			nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Datacenter: "a", Rack: "r1", State: ring.Normal,
				Tokens: []ring.Token{ring.Token(i) << 59}})
		}
		m.Topology = ring.NewTopology(5, nodes)
		var err error
		r := ring.Replication{Class: ring.Simple, Factor: factor}
		if m.Schema, err = schema.Apply(m.Schema, &schema.CreateKeyspace{Keyspace: "ks", Replication: r}); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes[1:] {
			m.PendingCleanup = append(m.PendingCleanup, PendingCleanup{Node: n.ID, Epoch: 5})
		}
		forced := *m
		var refused *Refused
		if err := applyBegin(m, &Begin{Kind: ring.Remove, Node: 1}, 6); !errors.As(err, &refused) ||
			refused.Busy != (factor > 1) ||
			factor == 1 && !strings.Contains(refused.Reason, "Use --force if it is lost anyway") {
			t.Errorf("%d replicas: %v, busy: %v", factor, err, refused != nil && refused.Busy)
		}
		if err := applyBegin(&forced, &Begin{Kind: ring.Remove, Node: 1, Force: true}, 6); err != nil {
			t.Errorf("%d replicas, forced: %v", factor, err)
		}
	}
}

// TestStaleQuorumNeedsALoser checks which nodes that are behind delay an operation: those that contain a quorum of the
// previous replicas, in the ring or in a data center, if a member of that quorum loses the range.
func TestStaleQuorumNeedsALoser(t *testing.T) {
	var nodes []*ring.Node
	for i, dc := range "aaabbbb" {
		nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Datacenter: string(dc), State: ring.Normal})
	}
	topology := ring.NewTopology(5, nodes)
	network := ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 3},
		ring.DatacenterFactor{Datacenter: "b", Factor: 3})
	large := ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 3},
		ring.DatacenterFactor{Datacenter: "b", Factor: 1})
	simple := ring.Replication{Class: ring.Simple, Factor: 3}
	for _, c := range []struct {
		name   string
		r      ring.Replication
		behind []ring.NodeID
		next   []ring.NodeID
		want   bool
	}{
		{"none", network, nil, []ring.NodeID{1, 2, 3, 4, 5, 7}, false},
		{"a dead data center that keeps its ranges", network, []ring.NodeID{1, 2, 3}, []ring.NodeID{1, 2, 3, 4, 5, 7},
			false},
		{"the loser alone", network, []ring.NodeID{6}, []ring.NodeID{1, 2, 3, 4, 5, 7}, false},
		{"the loser and another one of its data center", network, []ring.NodeID{5, 6}, []ring.NodeID{1, 2, 3, 4, 5, 7},
			true},
		{"the loser and a dead data center", network, []ring.NodeID{1, 2, 3, 6}, []ring.NodeID{1, 2, 3, 4, 5, 7}, true},
		{"a quorum of the ring that keeps its ranges", large, []ring.NodeID{1, 2, 3}, []ring.NodeID{1, 2, 3, 5}, false},
		{"a quorum of the ring with the loser", large, []ring.NodeID{1, 2, 4}, []ring.NodeID{1, 2, 3, 5}, true},
		{"two of three with the loser", simple, []ring.NodeID{1, 2}, []ring.NodeID{2, 3, 4}, true},
		{"two of three without the loser", simple, []ring.NodeID{2, 3}, []ring.NodeID{2, 3, 4}, false},
		{"a node that is no member", simple, []ring.NodeID{9, 2}, []ring.NodeID{2, 3, 4}, false},
	} {
		if got := staleQuorum(topology, c.r, c.behind, c.next); got != c.want {
			t.Errorf("%s: %v are behind, next %v: %v, want %v", c.name, c.behind, c.next, got, c.want)
		}
	}
}

// removalOf returns metadata of a ring of five nodes with three replicas. Node 1 is being removed.
func removalOf(t *testing.T, force bool) *Metadata {
	t.Helper()
	m := Empty()
	var nodes []*ring.Node
	for i := range 5 {
		nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Host: ring.HostID{byte(i + 1)}, Datacenter: "a",
			Rack: "r1", State: ring.Normal,
			Tokens: []ring.Token{ring.Token(i) << 59}})
	}
	m.Topology = ring.NewTopology(5, nodes)
	var err error
	r := ring.Replication{Class: ring.Simple, Factor: 3}
	if m.Schema, err = schema.Apply(schema.Initial(), &schema.CreateKeyspace{Keyspace: "ks",
		Replication: r}); err != nil {
		t.Fatal(err)
	}
	if err := applyBegin(m, &Begin{Kind: ring.Remove, Node: 1, Force: force}, 6); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestRemovalEndsWithoutDeadNodes removes a node while another node that gains ranges is dead: the operation ends with
// the live nodes, and the metadata list what the dead node lacks, unless it returns in time.
func TestRemovalEndsWithoutDeadNodes(t *testing.T) {
	for _, returns := range []ring.Phase{0, ring.Streaming, ring.Switching} {
		m := removalOf(t, false)
		gaining := m.Topology.Operation(6).Gaining
		dead := gaining[0]
		index := uint64(6)
		apply := func(c *Command) {
			t.Helper()
			index++
			c.ID = CommandID{byte(index)}
			next, err := apply(m, c, index)
			if err != nil {
				t.Fatal(err)
			}
			m = recode(t, next)
		}
		apply(&Command{Excuse: &Excuse{6, []ring.NodeID{dead}}})
		if returns == ring.Streaming {
			apply(&Command{Streamed: &Streamed{Operation: 6, Node: dead}})
		}
		short := []ring.Shortfall{{Keyspace: "ks", Ranges: 2}}
		for _, id := range gaining[1:] {
			apply(&Command{Streamed: &Streamed{Operation: 6, Node: id, Short: short}})
		}
		apply(&Command{Known: &Known{6}})
		if returns != 0 {
			apply(&Command{Compared: &Compared{Operation: 6, Node: dead}})
		}
		for _, id := range gaining[1:] {
			apply(&Command{Compared: &Compared{Operation: 6, Node: id}})
		}
		apply(&Command{End: &End{6}})
		want := len(gaining)
		if returns != 0 {
			want--
		}
		missing := m.MissingFrom(6)
		if m.Topology.Node(1) != nil || len(missing) != want || (missing[0].Node == dead) != (returns == 0) {
			t.Errorf("the dead node returned in phase %v: node 1 is a member: %v, missing %+v", returns,
				m.Topology.Node(1) != nil, missing)
		}
		if text := m.DescribeMissing(missing); !strings.Contains(text, "2 ranges of keyspace ks") {
			t.Error(text)
		}
	}
}

// TestOnlyRemovalsExcuse checks that a join or a departure waits for a dead node that gains ranges of users, because it
// can be aborted, and never for one that gains ranges of system keyspaces only.
func TestOnlyRemovalsExcuse(t *testing.T) {
	for _, system := range []bool{false, true} {
		m := Empty()
		var nodes []*ring.Node
		for i, dc := range "aabbcc" {
			nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Host: ring.HostID{byte(i + 1)},
				Datacenter: string(dc), Rack: "r1", State: ring.Normal,
				Tokens: []ring.Token{ring.Token(i) << 59}})
		}
		m.Topology = ring.NewTopology(5, nodes)
		r := ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 1},
			ring.DatacenterFactor{Datacenter: "b", Factor: 2})
		if system {
			r = ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "b", Factor: 2})
		}
		var err error
		if m.Schema, err = schema.Apply(schema.Initial(),
			&schema.CreateKeyspace{Keyspace: "ks", Replication: r}); err != nil {
			t.Fatal(err)
		}
		if err := applyBegin(m, &Begin{Kind: ring.Leave, Node: 1}, 6); err != nil {
			t.Fatal(err)
		}
		o := m.Topology.Operation(6)
		if !slices.Contains(o.Gaining, 2) {
			t.Fatal(o.Gaining)
		}
		if err := applyExcuse(m, &Excuse{6, []ring.NodeID{2}}, 7); (err == nil) != system {
			t.Errorf("node 2 gains system ranges only: %v; excused: %v", system, err)
		}
	}
}

// TestSystemRangesBlockNothing makes a node lose ranges of system keyspaces, which it has not dropped because it is
// dead: a removal by which it gains some begins nevertheless.
func TestSystemRangesBlockNothing(t *testing.T) {
	for _, system := range []bool{false, true} {
		m := removalOf(t, false)
		m.Topology = ring.NewTopology(5, m.withNode(1, func(n *ring.Node) { n.State = ring.Normal }))
		for id := ring.NodeID(2); id <= 5; id++ {
			m.PendingCleanup = append(m.PendingCleanup, PendingCleanup{Node: id, Epoch: 5, System: system})
		}
		if err := applyBegin(m, &Begin{Kind: ring.Remove, Node: 1}, 6); (err == nil) != system {
			t.Errorf("system ranges only: %v, removal: %v", system, err)
		}
	}
}

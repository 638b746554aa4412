package metadata

import (
	"fmt"
	"slices"
	"testing"

	"cqld/ring"
	"cqld/schema"
)

// fourNodes returns a walk in which four nodes have joined, and have dropped the ranges that they lost.
func fourNodes(t *testing.T) *operationsWalk {
	t.Helper()
	w := newOperationsWalk(t, 1, walkReplication)
	for len(w.m.Topology.Nodes()) < 4 {
		if err := w.join(); err != nil {
			t.Fatal(err)
		}
		for len(w.m.Topology.Operations()) > 0 {
			w.proceed()
		}
		for _, u := range slices.Clone(w.m.PendingCleanup) {
			w.clean(u)
		}
	}
	return w
}

// TestReplicationChangeIsRecorded checks that the metadata list the former replicas until every node that lost ranges
// by the change has dropped them, or the former replicas are replicas again.
func TestReplicationChangeIsRecorded(t *testing.T) {
	w := fourNodes(t)
	alter := func(factor int) error {
		r := ring.Replication{Class: ring.Simple, Factor: factor}
		change := schema.EncodeChange(&schema.AlterKeyspace{Keyspace: "ks", Replication: &r})
		return w.apply(&Command{Schema: &SchemaChange{Change: change, At: 77}})
	}
	for _, factor := range []int{1, 4} { // from any factor: all nodes lose ranges, and then hold all again
		if err := alter(factor); err != nil {
			t.Fatal(err)
		}
		lost := slices.ContainsFunc(w.m.Former, func(f Former) bool { return len(f.Nodes) > 0 })
		if want := factor == 1; lost != want {
			t.Fatalf("at factor %d, the former replications are %+v", factor, w.m.Former)
		}
	}
	if err := alter(1); err != nil {
		t.Fatal(err)
	}
	regain(t, w)
	if len(w.m.Former) != 1 {
		t.Fatalf("the former replications are %+v", w.m.Former)
	}
	f := w.m.Former[0]
	if f.Keyspace != "ks" || f.Replication.Factor != 4 || f.Since != 77 || len(f.Nodes) != 4 || f.Overlaps {
		t.Errorf("the former replication is %+v", f)
	}
	if got := recode(t, w.m).Former; len(got) != 1 || !slices.Equal(got[0].Nodes, f.Nodes) {
		t.Errorf("decoded, the former replications are %+v", got)
	}
	w.m.PendingCleanup = []PendingCleanup{{Node: w.m.Topology.Nodes()[0].ID, Epoch: 1}}
	w.log.PendingCleanup = w.m.PendingCleanup
	if err := alter(4); err == nil {
		t.Error("a node that drops data gains ranges")
	}
	w.m.PendingCleanup, w.log.PendingCleanup = nil, nil
	for _, n := range f.Nodes {
		if err := w.apply(&Command{Settled: &Settled{n, "ks", f.Epoch}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.m.Former) != 0 {
		t.Errorf("when all have dropped it, the former replications are %+v", w.m.Former)
	}
}

// regain makes every node report that its gained ranges were repaired.
func regain(t *testing.T, w *operationsWalk) {
	t.Helper()
	for _, f := range slices.Clone(w.m.Former) {
		for _, n := range f.Gained {
			if err := w.apply(&Command{Regained: &Regained{n, f.Keyspace, f.Changed}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestUnrepairedRowsAreKept moves a keyspace from one data center to another: from dc1:1 to dc1:1 and dc2:2 to dc2:2.
// An old row is only on dc1's replica, so that replica may drop it only if dc2's were repaired before dc1 was removed.
func TestUnrepairedRowsAreKept(t *testing.T) {
	for _, c := range []struct {
		name     string
		repaired []ring.NodeID // the nodes of dc2 that were repaired between the changes
		late     bool          // their reports arrive after the second change
		joins    bool          // the ring changes between the repair and the second change
		want     bool          // whether a repair after the second change suffices
	}{
		{"not repaired", nil, false, false, false},
		{"one of the replicas was repaired", []ring.NodeID{2}, false, false, false},
		{"repaired", []ring.NodeID{2, 3}, false, false, true},
		{"repaired, as far as the log knew too late", []ring.NodeID{2, 3}, true, false, false},
		{"another node took over what was not repaired", []ring.NodeID{2}, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, index := movedKeyspace(t)
			do := func(cmd *Command) {
				t.Helper()
				index++
				next, err := apply(m, cmd, index)
				if err != nil {
					t.Fatal(err)
				}
				m = recode(t, next)
			}
			alter := func(one, two int) {
				t.Helper()
				do(&Command{ID: CommandID{byte(index)},
					Schema: &SchemaChange{Change: schema.EncodeChange(&schema.AlterKeyspace{Keyspace: "ks",
						Replication: inDatacenters(one, two)}), At: int64(index)}})
			}
			alter(1, 2)
			changed := m.Former[0].Changed
			if f := m.Former[0]; len(f.Nodes) != 0 || !slices.Equal(f.Gained, []ring.NodeID{2, 3}) || !f.Overlaps {
				t.Fatalf("after the growth: %+v", f)
			}
			say := func() {
				for _, n := range c.repaired {
					do(&Command{ID: CommandID{100 + byte(n)}, Regained: &Regained{n, "ks", changed}})
				}
			}
			if !c.late {
				say()
			}
			if c.joins {
				m.regain(index)
				if f := m.Former[0]; !slices.Equal(f.Gained, []ring.NodeID{2, 3}) || f.Changed == changed {
					t.Fatalf("after the ring changed: %+v", f)
				}
			}
			alter(0, 2)
			if c.late {
				say()
			}
			var lost []Former
			for _, f := range m.Former {
				if len(f.Nodes) > 0 {
					lost = append(lost, f)
				}
			}
			if len(lost) != 1 || !slices.Equal(lost[0].Nodes, []ring.NodeID{1}) || lost[0].Overlaps != c.want {
				t.Errorf("dc1 keeps its data as %+v, want overlaps %v", lost, c.want)
			}
			alter(1, 2) // the remedy: dc1 is a replica again, the keyspace is repaired, and then dc1 is removed
			do(&Command{ID: CommandID{99}, Regained: &Regained{1, "ks", m.Former[0].Changed}})
			for _, n := range []ring.NodeID{2, 3} {
				if len(m.Former) > 0 {
					do(&Command{ID: CommandID{110 + byte(n)}, Regained: &Regained{n, "ks", m.Former[0].Changed}})
				}
			}
			if len(m.Former) != 0 {
				t.Fatalf("after the repair: %+v", m.Former)
			}
			if alter(0, 2); len(m.Former) != 1 || !m.Former[0].Overlaps {
				t.Errorf("after the second attempt: %+v", m.Former)
			}
		})
	}
}

func inDatacenters(one, two int) *ring.Replication {
	var factors []ring.DatacenterFactor
	for i, f := range []int{one, two} {
		if f > 0 {
			factors = append(factors, ring.DatacenterFactor{Datacenter: fmt.Sprint("dc", i+1), Factor: f})
		}
	}
	r := ring.NewNetworkTopology(factors...)
	return &r
}

// movedKeyspace returns a ring of one node in dc1 and two in dc2, with keyspace ks in dc1.
func movedKeyspace(t *testing.T) (m *Metadata, index uint64) {
	m = Empty()
	var nodes []*ring.Node
	for i, dc := range []string{"dc1", "dc2", "dc2"} {
		nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Host: ring.HostID{byte(i + 1)}, Datacenter: dc,
			Rack: "r1", State: ring.Normal,
			Tokens: []ring.Token{ring.Token(i) << 60}})
	}
	m.Topology, m.nextNode = ring.NewTopology(5, nodes), 4
	var err error
	if m.Schema, err = schema.Apply(schema.Initial(), &schema.CreateKeyspace{Keyspace: "ks",
		Replication: *inDatacenters(1, 0)}); err != nil {
		t.Fatal(err)
	}
	return m, 5
}

// TestChangesOfReplicationAddUp changes a factor from 3 to 2 and to 1, without a repair in between: a row that a
// majority of three acknowledged may be only on the two nodes that lost it by the changes, so neither may drop it.
func TestChangesOfReplicationAddUp(t *testing.T) {
	w := fourNodes(t)
	alter := func(factor int) {
		t.Helper()
		r := ring.Replication{Class: ring.Simple, Factor: factor}
		change := schema.EncodeChange(&schema.AlterKeyspace{Keyspace: "ks", Replication: &r})
		if err := w.apply(&Command{Schema: &SchemaChange{Change: change, At: int64(factor)}}); err != nil {
			t.Fatal(err)
		}
	}
	overlaps := func() (all []bool) {
		for _, f := range w.m.Former {
			if len(f.Nodes) > 0 {
				all = append(all, f.Overlaps)
			}
		}
		return all
	}
	alter(4)
	regain(t, w)
	alter(3)
	for _, n := range slices.Clone(w.m.Former[0].Nodes) {
		if err := w.apply(&Command{Settled: &Settled{n, "ks", w.m.Former[0].Epoch}}); err != nil {
			t.Fatal(err)
		}
	}
	alter(2)
	if got := overlaps(); !slices.Equal(got, []bool{true}) {
		t.Fatalf("3 to 2: overlaps %v", got)
	}
	alter(1)
	if got := overlaps(); !slices.Equal(got, []bool{false, false}) {
		t.Errorf("3 to 2 to 1: overlaps %v", got)
	}
	alter(2) // the second change is undone, and a repair can copy the data that the first one left
	if got := overlaps(); !slices.Equal(got, []bool{true}) {
		t.Errorf("3 to 2 to 1 to 2: overlaps %v", got)
	}
}

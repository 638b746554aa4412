package cluster

import (
	"slices"
	"testing"
	"time"

	"cqld/ring"
	"cqld/schema"
)

// confirmedAt is the epoch that is confirmed to a node; zero: none within the time.
func confirmedAt(n *testNode, within time.Duration) uint64 {
	epoch := make(chan uint64, 1)
	n.StartConfirm(func(m *Metadata) { epoch <- m.Epoch })
	select {
	case e := <-epoch:
		return e
	case <-time.After(within):
		return 0
	}
}

// TestOnlyAMajorityConfirms that a node's metadata have all that was committed: voters and learners, leaders and followers.
func TestOnlyAMajorityConfirms(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[0], "before"); err != nil {
		t.Fatal(err)
	}
	least := nodes[0].Metadata().Epoch
	for i, n := range nodes {
		if e := confirmedAt(n, patience); e < least {
			t.Errorf("node %d is confirmed epoch %d, want %d", i+1, e, least)
		}
	}
	var voters, rest []*testNode
	for _, n := range nodes {
		if n.votes() {
			voters = append(voters, n)
		} else {
			rest = append(rest, n)
		}
	}
	if len(voters) != 3 || len(rest) != 1 {
		t.Fatalf("%d voters", len(voters))
	}
	voters[0].stop()
	if e := confirmedAt(rest[0], patience); e < least {
		t.Errorf("with a dead voter, epoch %d is confirmed to a learner", e)
	}
	voters[1].stop()
	eventually(t, func() bool { return !voters[2].Alive(voters[1].Self()) })
	for _, n := range []*testNode{voters[2], rest[0]} {
		if e := confirmedAt(n, 2*time.Second); e != 0 {
			t.Errorf("without a majority, epoch %d is confirmed", e)
		}
	}
}

// votes says whether the node is a voter.
func (n *testNode) votes() bool {
	got := make(chan bool, 1)
	n.post(func() { got <- slices.Contains(n.driver.conf.GetVoters(), uint64(n.Self())) })
	return <-got
}

// TestAChangeOfReplicationIsRemembered until every node that lost ranges by it has dropped them, or the former replicas
// are replicas again.
func TestAChangeOfReplicationIsRemembered(t *testing.T) {
	w := newOperationsWalk(t, 1)
	for len(w.m.Topology.Nodes()) < 4 {
		if err := w.join(); err != nil {
			t.Fatal(err)
		}
		for len(w.m.Topology.Operations()) > 0 {
			w.proceed()
		}
		for _, u := range slices.Clone(w.m.Unclean) {
			w.clean(u)
		}
	}
	alter := func(factor int) error {
		r := ring.Replication{Class: ring.Simple, Factor: factor}
		return w.apply(&command{Schema: &schemaCommand{Change: schema.EncodeChange(&schema.AlterKeyspace{Keyspace: "ks", Replication: &r}), At: 77}})
	}
	for _, factor := range []int{1, 4} { // from whatever it was: all nodes lose ranges, and hold all again
		if err := alter(factor); err != nil {
			t.Fatal(err)
		}
		if want := factor == 1; (len(w.m.Former) > 0) != want {
			t.Fatalf("at factor %d, the former replications are %+v", factor, w.m.Former)
		}
	}
	if err := alter(1); err != nil {
		t.Fatal(err)
	}
	f := w.m.Former[0]
	if f.Keyspace != "ks" || f.Replication.Factor != 4 || f.Since != 77 || len(f.Nodes) != 4 || f.Overlaps {
		t.Errorf("the former replication is %+v", f)
	}
	if got := recode(t, w.m).Former; len(got) != 1 || !slices.Equal(got[0].Nodes, f.Nodes) {
		t.Errorf("decoded, the former replications are %+v", got)
	}
	w.m.Unclean = []Unclean{{w.m.Topology.Nodes()[0].ID, 1}}
	w.log.Unclean = w.m.Unclean
	if err := alter(4); err == nil {
		t.Error("a node that drops data gains ranges")
	}
	w.m.Unclean, w.log.Unclean = nil, nil
	for _, n := range f.Nodes {
		if err := w.apply(&command{Settled: &settledCommand{n, "ks", f.Epoch}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.m.Former) != 0 {
		t.Errorf("when all have dropped it, the former replications are %+v", w.m.Former)
	}
}

// TestChangesOfReplicationAddUp changes a factor from 3 to 2 and on to 1, without a repair in between: a row that a majority
// of three acknowledged may be on the two nodes alone that the changes took it from, so neither may drop it.
func TestChangesOfReplicationAddUp(t *testing.T) {
	w := newOperationsWalk(t, 1)
	for len(w.m.Topology.Nodes()) < 4 {
		if err := w.join(); err != nil {
			t.Fatal(err)
		}
		for len(w.m.Topology.Operations()) > 0 {
			w.proceed()
		}
		for _, u := range slices.Clone(w.m.Unclean) {
			w.clean(u)
		}
	}
	alter := func(factor int) {
		t.Helper()
		r := ring.Replication{Class: ring.Simple, Factor: factor}
		change := schema.EncodeChange(&schema.AlterKeyspace{Keyspace: "ks", Replication: &r})
		if err := w.apply(&command{Schema: &schemaCommand{Change: change, At: int64(factor)}}); err != nil {
			t.Fatal(err)
		}
	}
	overlaps := func() (all []bool) {
		for _, f := range w.m.Former {
			all = append(all, f.Overlaps)
		}
		return all
	}
	alter(4)
	alter(3)
	for _, n := range slices.Clone(w.m.Former[0].Nodes) {
		if err := w.apply(&command{Settled: &settledCommand{n, "ks", w.m.Former[0].Epoch}}); err != nil {
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
	alter(2) // the second change is undone, and a repair can bring what the first one left
	if got := overlaps(); !slices.Equal(got, []bool{true}) {
		t.Errorf("3 to 2 to 1 to 2: overlaps %v", got)
	}
}

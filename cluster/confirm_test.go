package cluster

import (
	"slices"
	"testing"
	"time"

	"cqld/cluster/metadata"
)

// confirmedAt returns the epoch that is confirmed to a node; zero means that there was none in time.
func confirmedAt(n *testNode, within time.Duration) uint64 {
	epoch := make(chan uint64, 1)
	n.StartConfirm(func(m *metadata.Metadata) { epoch <- m.Epoch })
	select {
	case e := <-epoch:
		return e
	case <-time.After(within):
		return 0
	}
}

// TestOnlyAMajorityConfirms shows that a node's metadata are confirmed only with a majority: for voters, learners,
// leaders and followers.
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

// votes reports whether the node is a voter.
func (n *testNode) votes() bool {
	got := make(chan bool, 1)
	n.loop.post(func() { got <- slices.Contains(n.driver.conf.GetVoters(), uint64(n.Self())) })
	return <-got
}

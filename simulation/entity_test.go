package simulation

import (
	"testing"

	"cqld/internal/mutant"
)

// TestSimEntities runs the workload of Azure Tables alone.
func TestSimEntities(t *testing.T) {
	runAlone(t, alone(), 50, func(o *Options) { o.Workloads = []string{"entity"} })
}

// TestSimEntitiesNeedPaxos shows that the workload finds ETags that are valid twice: one vote is treated as a majority.
func TestSimEntitiesNeedPaxos(t *testing.T) {
	mutant.Need(t, "paxos/one-vote-decides")
	mustFail(t, 0, 100, func(o *Options) {
		o.Workloads = []string{"entity"}
	}, "not linearizable")
}

// TestMissingCommitsAreRead runs two seeds with their original options. Most commits are lost, and a node that joins or
// rebuilds has the acceptors' state before the rows: it knew of a commit that its page did not contain, so that all
// pages were equal, and a round that had just sent the commit to the other replicas evaluated its conditions without
// it.
func TestMissingCommitsAreRead(t *testing.T) {
	for _, seed := range []uint64{811948, 812552} {
		o := DrawnOptions(seed)
		report(t, o, run(t, o))
	}
}

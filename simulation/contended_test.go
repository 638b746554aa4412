package simulation

import (
	"testing"
	"time"

	"cqld/internal/mutant"
)

// contendedRing returns the size of the ring of such a run, also for a run that a command repeats.
func contendedRing(seed uint64) (nodes, factor int) { return 3 + int(seed/2%3), 3 }

// contendedOptions returns the options of a run in which all nodes change one partition, without faults. Seeds differ
// in the number of nodes, in whether one is dead, and in the network delays.
func contendedOptions(seed uint64) Options {
	o := DefaultOptions(seed)
	o.Workloads, o.Points, o.FaultKinds = []string{"contended"}, nil, nil
	o.Nodes, o.Factor = contendedRing(seed)
	o.Faults = 2 * time.Second
	return o
}

// TestContendedOutcomesAreKnown makes several coordinators change one partition with all nodes up, and with one dead.
func TestContendedOutcomesAreKnown(t *testing.T) {
	n := max(10, *seeds/10)
	if testing.Short() {
		n = 6
	}
	acked := 0
	for i := range n {
		o := contendedOptions(*firstSeed + uint64(i))
		r := run(t, o)
		report(t, o, r)
		acked += r.Acked
	}
	t.Logf("%d seeds, %d changes", n, acked)
	if acked < 100*n {
		t.Errorf("only %d changes in %d seeds", acked, n)
	}
}

// TestUnknownOutcomesAreFound disables the lookup: the workload finds unknown outcomes.
func TestUnknownOutcomesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("many seeds")
	}
	mutant.Need(t, "paxos/no-lookup")
	for seed := uint64(0); seed < 200; seed++ {
		o := contendedOptions(seed)
		if r := run(t, o); len(r.Failures) > 0 {
			t.Logf("seed %d: %s", seed, r.Failures[0])
			return
		}
	}
	t.Error("200 seeds did not find an unknown outcome without the lookup")
}

// TestCoordinatorsStarveWithoutTurns disables turns: the workload finds changes that fail or take too long, or
// coordinators that complete too few.
func TestCoordinatorsStarveWithoutTurns(t *testing.T) {
	if testing.Short() {
		t.Skip("many seeds")
	}
	mutant.Need(t, "paxos/no-turns")
	for seed := uint64(0); seed < 100; seed++ {
		o := contendedOptions(seed)
		if r := run(t, o); len(r.Failures) > 0 {
			t.Logf("seed %d: %s", seed, r.Failures[0])
			return
		}
	}
	t.Error("100 seeds did not find starvation without turns")
}

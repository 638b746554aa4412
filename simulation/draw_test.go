package simulation

import (
	"slices"
	"strings"
	"testing"

	"cqld/internal/mutant"
	"cqld/internal/tier"
)

// TestDrawnSeedsMeet counts the draws of seeds: in at least a third of them the ring changes and processes restart, and
// conditional changes, three replicas and changes of the ring often coincide.
func TestDrawnSeedsMeet(t *testing.T) {
	const n = 2000
	var both, conditional, datacenters, large int
	factors, by := map[int]int{}, map[string]int{}
	for seed := range uint64(n) {
		o := DrawnOptions(seed)
		ringAndRestarts := o.changesRing() && o.restarts()
		if ringAndRestarts {
			both++
		}
		if ringAndRestarts && o.Factor == 3 && o.has("cas") {
			conditional++
		}
		if len(o.Datacenters) > 1 {
			datacenters++
		}
		if o.Nodes >= 7 {
			large++
		}
		factors[o.Factor]++
		by[o.ConvergeBy]++
		if nodes := o.Nodes; nodes < 3 || nodes > 10 || nodes < o.Factor {
			t.Errorf("seed %d has %d nodes for %d replicas", seed, nodes, o.Factor)
		}
	}
	t.Logf("of %d seeds %d have changes of the ring and restarts, %d of them three replicas and conditional "+
		"changes; %d several data centers, "+
		"%d at least 7 nodes; factors %v; converge by %v", n, both, conditional, datacenters, large, factors, by)
	if both < n/3 || conditional < n/20 || datacenters < n/5 || large < n/50 || factors[2] < n/30 || factors[5] < n/30 {
		t.Error("that is too few")
	}
	for _, converge := range []string{ByHints, ByRepair} {
		if by[converge] < n/6 {
			t.Errorf("only %d converge by %s", by[converge], converge)
		}
	}
}

// TestPaxosStateMovesWithItsRange runs seeds in which nodes gain ranges whose decisions are in the state of acceptors
// alone. Among them is one that finds it if the state stays where it was.
func TestPaxosStateMovesWithItsRange(t *testing.T) {
	for i := range tier.Draws(max(2, *seeds/15), 2) {
		o := DrawnOptions(358 + 10*uint64(i))
		if !slices.Equal(o.Workloads, []string{"cas"}) || o.Factor != 3 || !o.changesRing() {
			t.Fatalf("seed %d is another run: %v", o.Seed, o)
		}
		report(t, o, run(t, o))
	}
}

// TestDefaultSeedsFindLostPaxosState shows that the seeds that TestSim runs by default detect two faults that only runs
// of conditional changes alone detect (drawConditional): acceptors that answer before their state is on disk, and
// states that do not move with their ranges. 25 % and 45 % of those seeds do, and 15 of each kind run.
func TestDefaultSeedsFindLostPaxosState(t *testing.T) {
	if testing.Short() {
		t.Skip("several seeds")
	}
	for _, fault := range []struct {
		keys  string
		first uint64 // each tenth seed
	}{
		{"paxos/promise-unsynced paxos/accept-unsynced", 3},
		{"ring/paxos-state-not-streamed", 8},
	} {
		t.Run(fault.keys, func(t *testing.T) {
			mutant.Need(t, strings.Fields(fault.keys)...)
			for seed := fault.first; seed <= 150; seed += 10 {
				o := DrawnOptions(seed)
				for _, f := range run(t, o).Failures {
					if strings.Contains(f, "linearizable") {
						t.Logf("seed %d: %s", seed, f)
						return
					}
				}
			}
			t.Error("no default seed detects that it is missing")
		})
	}
}

package quorum

import (
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/ring"
)

// world returns six nodes in two data centers.
func world() (*ring.Topology, ring.Replication, map[ring.NodeID]string) {
	datacenters := map[ring.NodeID]string{}
	var nodes []*ring.Node
	for i := range 6 {
		n := &ring.Node{ID: ring.NodeID(i + 1), Datacenter: []string{"east", "west"}[i%2], Rack: "r",
			State: ring.Normal, Tokens: []ring.Token{ring.Token(i * 1000)}}
		nodes = append(nodes, n)
		datacenters[n.ID] = n.Datacenter
	}
	east, west := ring.DatacenterFactor{Datacenter: "east", Factor: 3},
		ring.DatacenterFactor{Datacenter: "west", Factor: 3}
	return ring.NewTopology(1, nodes), ring.NewNetworkTopology(east, west), datacenters
}

// TestTallyMatchesLevelDefinitions compares a tally, after random answers and failures, with the definitions of the
// levels: on each side, a number of all replicas, of those in the local data center, or of those in each.
func TestTallyMatchesLevelDefinitions(t *testing.T) {
	topology, replication, datacenters := world()
	levels := []ring.Consistency{ring.One, ring.Quorum, ring.All, ring.LocalOne, ring.LocalQuorum, ring.EachQuorum,
		ring.NodeLocal}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		level := levels[rnd.IntN(len(levels))]
		natural, after := some(rnd), some(rnd)
		replication := replication
		if rnd.IntN(3) == 0 {
			replication = ring.EverywhereOn(topology.Nodes())
		}
		var y Tally
		y.Reset(level, replication, topology, 1, "east")
		sides := [][]ring.NodeID{{1, 2, 3, 4, 5, 6}}
		if rnd.IntN(2) == 0 {
			y.Join(ring.ReplicaSet{Natural: natural, Others: [][]ring.NodeID{after}})
			sides = [][]ring.NodeID{natural, after}
		}
		var got, open []ring.NodeID
		for id := ring.NodeID(1); id <= 6; id++ {
			switch rnd.IntN(4) {
			case 0:
				y.Opened(id)
				y.Answered(id)
				got = append(got, id)
			case 1:
				y.Opened(id)
				open = append(open, id)
			case 2:
				y.Opened(id)
				y.Failed(id)
			}
		}
		satisfied, hopeless := true, false
		for _, side := range sides {
			s, h := meant(level, replication, datacenters, side, got, open)
			satisfied, hopeless = satisfied && s, hopeless || h
		}
		if y.Satisfied() != satisfied || y.Hopeless() != hopeless {
			t.Fatalf("%v of %v, answered %v, open %v: satisfied %v, hopeless %v", level, sides, got, open,
				y.Satisfied(), y.Hopeless())
		}
		if received, blockFor := y.Totals(); received < blockFor == satisfied {
			t.Fatalf("%v of %v, answered %v: %d of %d", level, sides, got, received, blockFor)
		}
	}
}

// some returns several of the nodes.
func some(rnd *rand.Rand) []ring.NodeID {
	ids := []ring.NodeID{1, 2, 3, 4, 5, 6}
	rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids[:1+rnd.IntN(6)]
}

// meant evaluates the definition of a level for one side.
func meant(level ring.Consistency, r ring.Replication, datacenters map[ring.NodeID]string, side, got,
	open []ring.NodeID) (satisfied, hopeless bool) {
	met := func(need int, counts func(ring.NodeID) bool) {
		n, more := 0, 0
		for _, id := range side {
			if counts(id) && slices.Contains(got, id) {
				n++
			}
			if counts(id) && slices.Contains(open, id) {
				more++
			}
		}
		satisfied, hopeless = satisfied && n >= need, hopeless || n+more < need
	}
	satisfied = true
	in := func(dc string) func(ring.NodeID) bool {
		return func(id ring.NodeID) bool { return datacenters[id] == dc }
	}
	// With EverywhereStrategy, a side has as many replicas as nodes.
	if r.Class == ring.Everywhere {
		r = ring.NewNetworkTopology(of(side, "east", datacenters), of(side, "west", datacenters))
	}
	switch level {
	case ring.NodeLocal:
		met(1, func(id ring.NodeID) bool { return id == 1 })
	case ring.LocalOne, ring.LocalQuorum:
		met(level.BlockFor(r, "east"), in("east"))
	case ring.EachQuorum:
		met(ring.QuorumOf(r.In("east")), in("east"))
		met(ring.QuorumOf(r.In("west")), in("west"))
	default:
		met(level.BlockFor(r, "east"), func(ring.NodeID) bool { return true })
	}
	return satisfied, hopeless
}

// of returns the number of a side's nodes in a data center.
func of(side []ring.NodeID, datacenter string, datacenters map[ring.NodeID]string) ring.DatacenterFactor {
	f := ring.DatacenterFactor{Datacenter: datacenter}
	for _, id := range side {
		if datacenters[id] == datacenter {
			f.Factor++
		}
	}
	return f
}

// TestTallyOfNodesNeedsAllOfThem checks that a tally of certain nodes is satisfied when all of them have answered,
// hopeless when one cannot, and that it counts no others.
func TestTallyOfNodesNeedsAllOfThem(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 5000 {
		var y Tally
		nodes := some(rnd)
		if rnd.IntN(10) == 0 {
			nodes = nil
		}
		y.ResetTo(nodes)
		answered, open := 0, 0
		for id := ring.NodeID(1); id <= 6; id++ {
			counts, all := y.Counts(id)
			if in := slices.Contains(nodes, id); counts != in || all != in {
				t.Fatalf("of %v, node %d counts: %v", nodes, id, counts)
			}
			if rnd.IntN(8) == 0 { // it cannot answer
				continue
			}
			y.Opened(id)
			if y.Ask(id) != counts {
				t.Fatalf("of %v, node %d is contacted: %v", nodes, id, !counts)
			}
			if counts {
				open++
			}
			if rnd.IntN(8) > 0 {
				y.Answered(id)
				if counts {
					answered++
				}
			}
		}
		satisfied, hopeless := answered == len(nodes) && answered > 0, open < len(nodes) || len(nodes) == 0
		if y.Satisfied() != satisfied || y.Hopeless() != hopeless || y.TwoSided() {
			t.Fatalf("of %v, %d answered and %d are open or answered: satisfied %v, hopeless %v",
				nodes, answered, open, y.Satisfied(), y.Hopeless())
		}
	}
}

// TestAskContactsFewestReplicas checks that only as many nodes are contacted as the level requires, starting with those
// on both sides.
func TestAskContactsFewestReplicas(t *testing.T) {
	topology, _, _ := world()
	simple := ring.Replication{Class: ring.Simple, Factor: 3}
	var y Tally
	y.Reset(ring.Quorum, simple, topology, 1, "east")
	y.JoinRead(ring.ReplicaSet{Natural: []ring.NodeID{1, 2, 3}, Before: []ring.NodeID{2, 3, 4}}, ring.Quorum, simple)
	if !y.TwoSided() || len(y.Quotas()) != 2 {
		t.Fatal(y.Quotas())
	}
	var asked []ring.NodeID
	for _, id := range []ring.NodeID{2, 1, 4, 3} {
		y.Opened(id)
		if y.Ask(id) {
			asked = append(asked, id)
		}
	}
	if !slices.Equal(asked, []ring.NodeID{2, 1, 4}) {
		t.Errorf("asked %v", asked)
	}
	if y.Replaces(4, 1) || !y.Replaces(3, 1) || !y.Replaces(3, 4) || !y.Helps(1, 2) || y.Helps(4, 1) {
		t.Error("wrong replacement replica")
	}
	if some, all := y.Counts(2); !some || !all {
		t.Error(some, all)
	}
	if some, all := y.Counts(1); !some || all {
		t.Error(some, all)
	}
	y.Answered(2)
	y.Answered(1)
	if received, blockFor := y.Totals(); received != 1 || blockFor != 2 || y.Satisfied() {
		t.Error(received, blockFor)
	}
	y.Again(1)
	y.Failed(1)
	if y.Hopeless() {
		t.Error("a request to 3 was accepted")
	}
	y.Failed(3)
	if !y.Hopeless() {
		t.Error("one of three cannot be two")
	}
}

func TestTallyDoesNotAllocate(t *testing.T) {
	topology, _, _ := world()
	simple := ring.Replication{Class: ring.Simple, Factor: 3}
	var y Tally
	if n := testing.AllocsPerRun(100, func() {
		y.Reset(ring.Quorum, simple, topology, 1, "east")
		for _, id := range []ring.NodeID{1, 2, 3} {
			y.Opened(id)
			y.Ask(id)
		}
		y.Answered(1)
		y.Answered(2)
		if !y.Satisfied() {
			t.Fatal("a quorum of three is two")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

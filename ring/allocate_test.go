package ring

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// member is a node of a growing ring.
type member struct{ dc, rack string }

// growth returns the topologies of a ring whose members join one after the other, with 16 tokens each.
func growth(members ...member) []*Topology {
	var nodes []*Node
	t := NewTopology(0, nil)
	var all []*Topology
	for i, m := range members {
		nodes = append(nodes, &Node{ID: NodeID(i + 1), Datacenter: m.dc, Rack: m.rack, State: Normal,
			Tokens: Allocate(t, m.dc, m.rack, 16, 4)})
		t = NewTopology(uint64(i+1), nodes)
		all = append(all, t)
	}
	return all
}

// cycle returns n members, assigned to the places in turn.
func cycle(n int, places ...member) (out []member) {
	for i := range n {
		out = append(out, places[i%len(places)])
	}
	return out
}

// spread returns the maximum of the nodes' ownership in a data center under r, divided by the mean, minus one.
func spread(t *Topology, r Replication, dc string) float64 {
	owned := map[NodeID]float64{}
	total, nodes := 0.0, 0
	for _, n := range t.Nodes() {
		if n.Datacenter == dc {
			nodes++
		}
	}
	for _, rr := range t.Placement(r).Ranges(FullRange()) {
		w := float64(uint64(rr.Range.End) - uint64(rr.Range.Start))
		for _, id := range rr.Replicas.Natural {
			if t.Node(id).Datacenter == dc {
				owned[id] += w
				total += w
			}
		}
	}
	most := 0.0
	for _, w := range owned {
		most = math.Max(most, w)
	}
	return most/(total/float64(nodes)) - 1
}

// spreadMax is the maximum relative deviation of a node's ownership above the mean.
const spreadMax = 0.05

func TestOwnershipIsEven(t *testing.T) {
	for n, top := range growth(cycle(16, member{"dc1", "r1"})...) {
		first, all := spread(top, Replication{Class: Simple, Factor: 1}, "dc1"),
			spread(top, Replication{Class: Simple, Factor: 4}, "dc1")
		three := spread(top, Replication{Class: Simple, Factor: 3}, "dc1")
		t.Logf("%2d nodes: factor 1 %.3f, 3 %.3f, 4 %.3f", n+1, first, three, all)
		if first > spreadMax || all > spreadMax {
			t.Errorf("%d nodes: a node owns %.3f too much as first replica, %.3f at factor 4", n+1, first, all)
		}
	}
}

func TestOwnershipIsEvenOverRacks(t *testing.T) {
	// Four replicas cannot be divided evenly among three racks: the rack with two replicas differs between ranges.
	for racks, most := range map[int]float64{2: spreadMax, 3: 2 * spreadMax, 4: spreadMax} {
		var places []member
		for i := range racks {
			places = append(places, member{"dc1", fmt.Sprint("r", i+1)})
		}
		r := NewNetworkTopology(DatacenterFactor{"dc1", 4})
		for n, top := range growth(cycle(8, places...)...) {
			s := spread(top, r, "dc1")
			t.Logf("%d racks, %2d nodes: factor 4 %.3f", racks, n+1, s)
			// Racks of different sizes cannot be even, because each rack has the same share.
			if (n+1)%racks == 0 && s > most {
				t.Errorf("%d racks, %d nodes: a node owns %.3f too much", racks, n+1, s)
			}
		}
	}
}

func TestEachDatacenterIsEvenOnItsOwn(t *testing.T) {
	all := growth(cycle(10, member{"east", "r1"}, member{"west", "r1"})...)
	for n, top := range all {
		for _, dc := range top.Datacenters() {
			if s := spread(top, NewNetworkTopology(DatacenterFactor{dc, 4}), dc); s > spreadMax {
				t.Errorf("%d nodes: %s is uneven by %.3f", n+1, dc, s)
			}
		}
	}
	checkDistinct(t, all[len(all)-1])
}

func checkDistinct(t *testing.T, top *Topology) {
	t.Helper()
	tokens := top.Tokens()
	for i, tok := range tokens {
		if tok == MinToken || i > 0 && tokens[i-1] == tok {
			t.Errorf("token %d is not the node's", tok)
		}
	}
}

// For any existing tokens, a node gets the requested number of tokens, sorted and not owned by others.
func TestAllocateGivesTokensOfItsOwn(t *testing.T) {
	tight := &Node{ID: 1, Datacenter: "dc1", Rack: "r1", State: Normal, Tokens: []Token{MaxToken - 1, MaxToken}}
	single := &Node{ID: 1, Datacenter: "dc1", Rack: "r1", State: Normal, Tokens: []Token{0}}
	other := &Node{ID: 1, Datacenter: "dc2", Rack: "r1", State: Normal, Tokens: evenTokens(16)}
	for name, nodes := range map[string][]*Node{"tight": {tight}, "single": {single}, "other": {other}, "none": nil} {
		for _, count := range []int{1, 16, 64} {
			for _, factor := range []int{0, 4} {
				top := NewTopology(1, nodes)
				tokens := Allocate(top, "dc1", "r2", count, factor)
				if len(tokens) != count || !slices.IsSorted(tokens) {
					t.Errorf("%s: %d tokens of %d: %v", name, len(tokens), count, tokens)
				}
				if !slices.Equal(tokens, Allocate(top, "dc1", "r2", count, factor)) {
					t.Errorf("%s: another answer the second time", name)
				}
				joined := append(slices.Clone(nodes), &Node{ID: 9, Datacenter: "dc1", Rack: "r2", State: Normal,
					Tokens: tokens})
				checkDistinct(t, NewTopology(2, joined))
			}
		}
	}
}

// The ownership that a layout updates while tokens move equals the ownership computed from the beginning.
func TestLayoutOwnershipMatchesRecomputation(t *testing.T) {
	tops := growth(cycle(7, member{"dc1", "r1"}, member{"dc1", "r2"}, member{"dc1", "r2"})...)
	for _, top := range tops {
		l := newLayout(top, "dc1", "r3", 3)
		s := newSearch(l, 5)
		for range 300 {
			i := int(s.next() % uint64(len(s.tokens)))
			if to, ok := s.propose(s.tokens[i], tempFirst); ok {
				s.move(i, to)
			}
			kept := slices.Clone(l.owned)
			clear(l.owned)
			for k := range l.tokens {
				l.account(k, 1)
			}
			for k := range kept {
				if math.Abs(kept[k]-l.owned[k]) > 1e-9 {
					t.Fatalf("%d nodes: account %v, should be %v", len(top.Nodes()), kept, l.owned)
				}
			}
		}
	}
}

func BenchmarkAllocateSixteenth(b *testing.B) {
	tops := growth(cycle(15, member{"dc1", "r1"})...)
	for b.Loop() {
		Allocate(tops[14], "dc1", "r1", 16, 4)
	}
}

package ring

import "testing"

// grow is a topology of n nodes with 16 tokens each, joined one after the other.
func grow(n int) *Topology {
	var nodes []*Node
	t := NewTopology(0, nil)
	for i := 1; i <= n; i++ {
		nodes = append(nodes, &Node{ID: NodeID(i), Datacenter: "dc1", Rack: "r1", State: Normal, Tokens: Allocate(t, "dc1", 16, 4)})
		t = NewTopology(uint64(i), nodes)
	}
	return t
}

// spread is the greatest over the mean of what nodes own, replicas included, less one.
func spread(t *Topology, factor int) float64 {
	owned := map[NodeID]float64{}
	p := t.Placement(Replication{Class: Simple, Factor: factor})
	total := 0.0
	for _, rr := range p.Ranges(FullRange()) {
		w := float64(uint64(rr.Range.End) - uint64(rr.Range.Start))
		for _, id := range rr.Replicas.Natural {
			owned[id] += w
			total += w
		}
	}
	most := 0.0
	for _, w := range owned {
		most = max(most, w)
	}
	return most/(total/float64(len(t.Nodes()))) - 1
}

func TestOwnershipIsEven(t *testing.T) {
	for n := 1; n <= 6; n++ {
		top := grow(n)
		t.Logf("%2d nodes: primary spread %.3f, at factor 4 %.3f", n, spread(top, 1), spread(top, min(4, n)))
	}
}

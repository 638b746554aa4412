package ring

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
)

// TestInvariantsFire breaks each invariant, as a bug in the code that makes the value would.
func TestInvariantsFire(t *testing.T) {
	nodes := func(second NodeID, token Token) []*Node {
		return []*Node{
			{ID: 1, Datacenter: "a", Rack: "r1", State: Normal, Tokens: []Token{-100, 100}},
			{ID: second, Datacenter: "a", Rack: "r2", State: Normal, Tokens: []Token{token}},
			{ID: 9, Datacenter: "a", Rack: "r2", State: Normal, Tokens: []Token{200}},
		}
	}
	topology := NewTopology(7, nodes(2, 0))
	leave := func(id uint64) *Operation { return &Operation{ID: id, Kind: Leave, Node: 2, Phase: Streaming} }
	remove := &Operation{ID: 7, Kind: Remove, Node: 2, Phase: Streaming}
	placement := func(t *Topology, set ReplicaSet) *Placement {
		r := NewNetworkTopology(DatacenterFactor{Datacenter: "a", Factor: 2})
		return &Placement{topology: t, replication: r, sets: []ReplicaSet{set}}
	}
	half := Range{Start: 0, End: 100}
	for name, breaks := range map[string]func(){
		"node twice":            func() { NewTopology(7, nodes(1, 0)) },
		"node without id":       func() { NewTopology(7, nodes(0, 0)) },
		"moved later":           func() { NewMovingTopology(7, 8, nodes(2, 0), nil) },
		"operation later":       func() { NewMovingTopology(7, 7, nodes(2, 0), []*Operation{leave(8)}) },
		"operations in reverse": func() { NewMovingTopology(7, 7, nodes(2, 0), []*Operation{leave(7), leave(6)}) },
		"token twice":           func() { NewTopology(7, nodes(2, 100)) },
		"too few replicas":      func() { placement(topology, ReplicaSet{Natural: []NodeID{1}}).check() },
		"replica twice":         func() { placement(topology, ReplicaSet{Natural: []NodeID{1, 1}}).check() },
		"natural and pending": func() {
			placement(topology, ReplicaSet{Natural: []NodeID{1, 2}, Pending: []NodeID{2}}).check()
		},
		"dead and pending": func() {
			moving := NewMovingTopology(7, 7, nodes(2, 0), []*Operation{remove})
			placement(moving, ReplicaSet{Natural: []NodeID{1, 9}, Pending: []NodeID{2}}).check()
		},
		"one rack of two": func() { placement(topology, ReplicaSet{}).checkRacks([]NodeID{2, 9}) },
		"gap between pieces": func() {
			checkRanges(half, []RangeReplicas{{Range: Range{Start: 0, End: 10}}, {Range: Range{Start: 20, End: 100}}})
		},
		"pieces end early":  func() { checkRanges(half, []RangeReplicas{{Range: Range{Start: 0, End: 10}}}) },
		"wrapping division": func() { topology.Placement(Replication{Class: Simple, Factor: 1}).Ranges(Range{5, -5}) },
		"gain from itself":  func() { checkGains([]Gain{{Node: 1, Range: half, Sources: []NodeID{1}}}) },
		"loser no source":   func() { checkGains([]Gain{{Node: 1, Range: half, From: 3, Sources: []NodeID{2}}}) },
		"gained twice": func() {
			checkGains([]Gain{{Node: 1, Range: half}, {Node: 2, Range: half}, {Node: 1, Range: Range{50, 200}}})
		},
		"gained range wraps": func() { checkGains([]Gain{{Node: 1, Range: Range{100, 0}}}) },
		"allocated twice":    func() { topology.checkNew([]Token{5, 5}, 2) },
		"allocated token":    func() { topology.checkNew([]Token{5, 100}, 2) },
		"part of the ring":   func() { FullRange().Part(0, 2) },
		"part after the end": func() { half.Part(2, 2) },
		"token in no part":   func() { half.PartOf(101, 2) },
		"share counted twice": func() {
			l := newLayout(topology, "a", "r1", 2)
			l.account(0, 1)
			l.account(0, 1)
			l.account(0, 1)
			l.check()
		},
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, breaks, "") })
	}
}

package ring

import (
	"reflect"
	"testing"
)

// TestGainsOfAnEarlierValue shows that what is gained by an operation does not depend on which of its values
// one holds: the one it began with, or one that knows who has streamed since. A node whose pull fails asks
// again with the value that it began with.
func TestGainsOfAnEarlierValue(t *testing.T) {
	nodes := []*Node{
		{ID: 1, Datacenter: "a", State: Normal, Tokens: []Token{-1000, 1000}},
		{ID: 2, Datacenter: "a", State: Normal, Tokens: []Token{-500, 1500}},
		{ID: 3, Datacenter: "a", State: Leaving, Tokens: []Token{0, 2000}},
		{ID: 4, Datacenter: "a", State: Normal, Tokens: []Token{500, 2500}},
	}
	r := Replication{Class: Simple, Factor: 2}
	began := &Operation{ID: 7, Kind: Leave, Node: 3, Phase: Streaming}
	want := NewMovingTopology(7, 7, nodes, []*Operation{began}).Gains(began, r, 0)
	if len(want) == 0 {
		t.Fatal("nobody gains anything when a node leaves")
	}
	for _, later := range []Operation{
		{ID: 7, Kind: Leave, Node: 3, Phase: Streaming, Streamed: []NodeID{1}},
		{ID: 7, Kind: Leave, Node: 3, Phase: Switching, Switched: 9},
		{ID: 7, Kind: Leave, Node: 3, Phase: Switching, Switched: 9, Known: true},
	} {
		if got := NewMovingTopology(10, 9, nodes, []*Operation{&later}).Gains(began, r, 0); !reflect.DeepEqual(got, want) {
			t.Errorf("at %+v: %+v, not %+v", later, got, want)
		}
	}
}

// TestReadersAskBothSides shows when a range has replicas that reads must ask besides the natural ones.
func TestReadersAskBothSides(t *testing.T) {
	nodes := []*Node{
		{ID: 1, Datacenter: "a", State: Normal, Tokens: []Token{0}},
		{ID: 2, Datacenter: "a", State: Leaving, Tokens: []Token{1000}},
	}
	r := Replication{Class: Simple, Factor: 1}
	for _, c := range []struct {
		phase           Phase
		natural, before NodeID
	}{{Streaming, 2, 0}, {Switching, 1, 2}} {
		o := &Operation{ID: 7, Kind: Leave, Node: 2, Phase: c.phase}
		set := NewMovingTopology(7, 7, nodes, []*Operation{o}).Placement(r).Replicas(500)
		if set.Natural[0] != c.natural || len(set.Before) > 0 != (c.before > 0) || c.before > 0 && set.Before[0] != c.before {
			t.Errorf("%v: %+v", c.phase, set)
		}
		if set := NewMovingTopology(7, 7, nodes, []*Operation{o}).Placement(r).Replicas(0); set.Before != nil {
			t.Errorf("%v: a range that stays: %+v", c.phase, set)
		}
	}
}

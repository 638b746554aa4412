package ring

import (
	"math/bits"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestGainsOfAnEarlierValue checks that the ranges gained by an operation do not depend on which version of the
// operation a node has: the initial one, or one that records the nodes that have streamed since. A node whose stream
// session fails retries with the initial version.
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
		t.Fatal("no node gains a range when a node leaves")
	}
	for _, later := range []Operation{
		{ID: 7, Kind: Leave, Node: 3, Phase: Streaming, Streamed: []NodeID{1}},
		{ID: 7, Kind: Leave, Node: 3, Phase: Switching, Switched: 9},
		{ID: 7, Kind: Leave, Node: 3, Phase: Switching, Switched: 9, Known: true},
	} {
		if got := NewMovingTopology(10, 9, nodes, []*Operation{&later}).Gains(began, r, 0); !reflect.DeepEqual(got,
			want) {
			t.Errorf("at %+v: %+v, not %+v", later, got, want)
		}
	}
}

// TestReadersContactBothReplicaSets checks when a range has replicas that reads must contact in addition to the natural
// ones.
func TestReadersContactBothReplicaSets(t *testing.T) {
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
		if set.Natural[0] != c.natural || len(set.Before) > 0 != (c.before > 0) || c.before > 0 &&
			set.Before[0] != c.before {
			t.Errorf("%v: %+v", c.phase, set)
		}
		if set := NewMovingTopology(7, 7, nodes, []*Operation{o}).Placement(r).Replicas(0); set.Before != nil {
			t.Errorf("%v: a range that stays: %+v", c.phase, set)
		}
	}
}

// TestGainsMeetEveryQuorum generates rings, replications and operations. If a node gains a range that no single node
// loses, it streams from enough other nodes to receive every acknowledged write, for any replicas of the write quorum
// and any choice of sources. The same holds for LOCAL_QUORUM and the sources of the node's own data center.
func TestGainsMeetEveryQuorum(t *testing.T) {
	checked, local := 0, 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		nodes, o := drawOperation(rng)
		topology := NewMovingTopology(7, 7, nodes, []*Operation{o})
		var r Replication
		if rng.IntN(2) == 0 {
			r = Replication{Class: Simple, Factor: 1 + rng.IntN(5)}
		} else {
			r = NewNetworkTopology(DatacenterFactor{Datacenter: "a", Factor: 1 + rng.IntN(4)},
				DatacenterFactor{Datacenter: "b", Factor: 1 + rng.IntN(4)})
		}
		still := *o
		still.Phase = Streaming // natural replicas are those before the operation
		before := NewMovingTopology(7, 7, nodes, []*Operation{&still}).Placement(r)
		for _, g := range topology.Gains(o, r, 0) {
			if g.From != 0 {
				continue
			}
			natural := before.Replicas(g.Range.End).Natural
			if n := missedQuorum(natural, QuorumOf(r.Total()), g.Sources, g.Total); n != nil {
				t.Fatalf("seed %d: %+v: a quorum of %v without %v of %+v has a write that is not fetched", seed, *o,
					natural, n, g)
			}
			checked++
			if r.Class != NetworkTopology {
				continue
			}
			dc := topology.Node(g.Node).Datacenter
			elsewhere := func(id NodeID) bool { return topology.Node(id).Datacenter != dc }
			here, sources := slices.DeleteFunc(slices.Clone(natural), elsewhere),
				slices.DeleteFunc(slices.Clone(g.Sources), elsewhere)
			if n := missedQuorum(here, QuorumOf(r.In(dc)), sources, g.Local); n != nil {
				t.Fatalf("seed %d: %+v: a local quorum of %v without %v of %+v has a write that is not fetched", seed,
					*o, here, n, g)
			}
			local++
		}
	}
	if checked < 5000 || local < 2000 {
		t.Fatalf("%d gains were checked, %d of them for local quorums: too few", checked, local)
	}
}

// drawOperation generates members of two data centers and an operation of one of them. Nodes that are removed or
// replaced are dead, so their ranges have no single source.
func drawOperation(rng *rand.Rand) (nodes []*Node, o *Operation) {
	tokens := func() (out []Token) {
		for range 1 + rng.IntN(3) {
			out = append(out, Token(rng.Uint64()))
		}
		return slices.Sorted(slices.Values(out))
	}
	for i := range 3 + rng.IntN(7) {
		nodes = append(nodes, &Node{ID: NodeID(i + 1), Datacenter: string(rune('a' + i%2)), Rack: "r1", State: Normal,
			Tokens: tokens()})
	}
	at := nodes[rng.IntN(len(nodes))]
	o = &Operation{ID: 7, Kind: []OperationKind{Join, Leave, Remove, Remove, Replace, Replace, Move}[rng.IntN(7)],
		Node: at.ID, Phase: Streaming}
	switch o.Kind {
	case Move:
		o.Tokens = tokens()
	case Join, Replace:
		n := &Node{ID: NodeID(len(nodes) + 1), Datacenter: at.Datacenter, Rack: "r1", State: Joining}
		nodes, o.Node = append(nodes, n), n.ID
		if o.Kind == Replace {
			o.Replaced = at.ID
		} else {
			o.Tokens = tokens()
		}
	}
	return nodes, o
}

// missedQuorum returns contacted sources that are disjoint from some quorum of the replicas, or nil if there are none.
// If there are fewer sources than required, the range waits.
func missedQuorum(replicas []NodeID, quorum int, sources []NodeID, asked int) (chosen []NodeID) {
	if quorum > len(replicas) || asked > len(sources) {
		return nil
	}
	for set := range 1 << len(sources) {
		if bits.OnesCount(uint(set)) != asked {
			continue
		}
		out, others := make([]NodeID, 0, asked), 0
		for i, id := range sources {
			if set>>i&1 == 1 {
				out = append(out, id)
			}
		}
		for _, id := range replicas {
			if !slices.Contains(out, id) {
				others++
			}
		}
		if others >= quorum {
			return out
		}
	}
	return nil
}

// TestCompletedOperations compares topologies after completed operations and after aborted ones.
func TestCompletedOperations(t *testing.T) {
	member := func(id NodeID, state NodeState, tokens ...Token) *Node {
		return &Node{ID: id, State: state, Tokens: tokens}
	}
	one := member(1, Normal, 10)
	for _, c := range []struct {
		o               Operation
		before, aborted []*Node
	}{
		{Operation{Kind: Join, Node: 2, Tokens: []Token{20}}, []*Node{one, member(2, Normal, 20)}, []*Node{one}},
		{Operation{Kind: Leave, Node: 2}, []*Node{one}, []*Node{one, member(2, Normal, 20)}},
		{Operation{Kind: Remove, Node: 2}, []*Node{one}, []*Node{one, member(2, Normal, 20)}},
		{Operation{Kind: Replace, Node: 3, Replaced: 2}, []*Node{one, member(3, Normal, 20)},
			[]*Node{one, member(2, Normal, 20)}},
		{Operation{Kind: Move, Node: 2, Tokens: []Token{30, 20}}, []*Node{one, member(2, Normal, 20, 30)},
			[]*Node{one, member(2, Normal, 25)}},
	} {
		if !c.o.Completed(NewTopology(9, c.before)) {
			t.Errorf("%v completed, and is taken for aborted", c.o.Kind)
		}
		if c.o.Completed(NewTopology(9, c.aborted)) {
			t.Errorf("%v was aborted, and is taken for completed", c.o.Kind)
		}
	}
}

package ring

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSplitsAndMergesChangeNoReplicaSet adds tokens with the owner of the range that they divide, and removes tokens
// before one of the same owner, in random rings: the replicas of every token stay the same, in the same order.
func TestSplitsAndMergesChangeNoReplicaSet(t *testing.T) {
	merges := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 11))
		nodes, _ := drawOperation(rng)
		nodes = slices.DeleteFunc(nodes, func(n *Node) bool { return n.State == Joining })
		before := NewTopology(7, nodes)
		tokens := before.Tokens()
		r := NewNetworkTopology(DatacenterFactor{Datacenter: "a", Factor: 1 + rng.IntN(4)},
			DatacenterFactor{Datacenter: "b", Factor: 1 + rng.IntN(4)})
		if rng.IntN(2) == 0 {
			r = Replication{Class: Simple, Factor: 1 + rng.IntN(5)}
		}
		at := rng.IntN(len(tokens))
		x := Transfer{Token: tokens[at] - Token(1+rng.IntN(1<<20)), To: before.Owner(at).ID}
		if next := before.Owner((at + 1) % len(tokens)); len(next.Tokens) > 1 && next == before.Owner(at) {
			x = Transfer{Token: tokens[at], From: next.ID}
			merges++
		}
		o := &Operation{ID: 8, Kind: Reassign, Node: NodeOf([]Transfer{x}), Transfers: []Transfer{x}, Phase: Streaming}
		after := NewMovingTopology(8, 8, nodes, []*Operation{o})
		if got := after.GainingOf(o, []Replication{r}); len(got) > 0 {
			t.Fatalf("seed %d: %v gain ranges by %+v", seed, got, x)
		}
		ended := *o
		ended.Phase = Switching
		was, is := before.Placement(r), NewMovingTopology(8, 8, nodes, []*Operation{&ended}).Placement(r)
		for range 50 {
			tok := Token(rng.Uint64())
			if a, b := was.Replicas(tok), is.Replicas(tok); !slices.Equal(a.Natural, b.Natural) || len(b.Others) > 0 {
				t.Fatalf("seed %d: %+v: token %s: %+v, %+v", seed, x, tok, a, b)
			}
		}
	}
	if merges < 20 {
		t.Errorf("only %d tokens were removed", merges)
	}
}

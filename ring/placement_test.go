package ring

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The file was recorded from Cassandra's strategies by testdata/Record.java.
func TestReplicasAreInCassandrasOrder(t *testing.T) {
	f, err := os.Open("testdata/replicas.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var nodes []*Node
	var p *Placement
	compared := 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		words := strings.Fields(sc.Text())
		switch words[0] {
		case "ring":
			nodes = nil
		case "node":
			nodes = append(nodes, parseNode(t, words[1:]))
		case "simple", "network":
			p = NewTopology(1, nodes).Placement(parseReplication(t, words))
		default:
			tok := Token(parseInt(t, strings.TrimSuffix(words[0], ":")))
			want := strings.Join(words[1:], " ")
			if got := joinIDs(p.Replicas(tok).Natural); got != want {
				t.Errorf("%d nodes, %v, token %d: replicas %s, Cassandra's are %s", len(nodes), p.Replication(), tok,
					got, want)
			}
			compared++
		}
	}
	if compared < 3000 {
		t.Errorf("only %d replica sets were compared", compared)
	}
}

func parseInt(t testing.TB, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// parseNode parses: id datacenter rack token…
func parseNode(t testing.TB, words []string) *Node {
	t.Helper()
	n := &Node{ID: NodeID(parseInt(t, words[0])), Datacenter: words[1], Rack: words[2], State: Normal}
	for _, w := range words[3:] {
		n.Tokens = append(n.Tokens, Token(parseInt(t, w)))
	}
	return n
}

// parseReplication parses: simple 3, or: network dc1=3 dc2=2
func parseReplication(t testing.TB, words []string) Replication {
	t.Helper()
	if words[0] == "simple" {
		return Replication{Class: Simple, Factor: int(parseInt(t, words[1]))}
	}
	var factors []DatacenterFactor
	for _, w := range words[1:] {
		dc, n, _ := strings.Cut(w, "=")
		factors = append(factors, DatacenterFactor{dc, int(parseInt(t, n))})
	}
	return NewNetworkTopology(factors...)
}

func joinIDs(ids []NodeID) string {
	var b []string
	for _, id := range ids {
		b = append(b, fmt.Sprint(uint64(id)))
	}
	return strings.Join(b, " ")
}

// For any ring and any range of it, the pieces are consecutive, do not wrap, and together cover the range, and each
// token's replicas are those of its piece.
func TestRangesCoverAnyPartOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		top := randomTopology(rng)
		p := top.Placement(randomReplication(rng))
		for _, part := range randomRange(rng, top).Unwrap() {
			checkPieces(t, p, part, p.Ranges(part))
		}
	}
}

// randomRange returns a range that often begins or ends at a token of the ring.
func randomRange(rng *rand.Rand, top *Topology) Range {
	pick := func() Token {
		if n := len(top.Tokens()); n > 0 && rng.IntN(2) == 0 {
			return top.Tokens()[rng.IntN(n)]
		}
		if edges := edgeTokens(); rng.IntN(3) == 0 {
			return edges[rng.IntN(len(edges))]
		}
		return Token(rng.Uint64())
	}
	r := Range{pick(), pick()}
	if r.Start == r.End {
		return FullRange()
	}
	return r
}

func checkPieces(t *testing.T, p *Placement, part Range, pieces []RangeReplicas) {
	t.Helper()
	if len(p.Topology().Tokens()) == 0 {
		if len(pieces) != 0 {
			t.Errorf("%d pieces of an empty ring", len(pieces))
		}
		return
	}
	if len(pieces) == 0 || pieces[0].Range.Start != part.Start || pieces[len(pieces)-1].Range.End != part.End {
		t.Fatalf("%s is cut into %v", part, pieces)
	}
	for i, piece := range pieces {
		r := piece.Range
		if r.Wraps() || i > 0 && r.Start != pieces[i-1].Range.End || r.Start == r.End && r != FullRange() {
			t.Fatalf("%s is cut into %v", part, pieces)
		}
		for _, tok := range []Token{r.Start + 1, r.Start/2 + r.End/2, r.End} {
			if tok != MinToken && r.Contains(tok) && !slices.Equal(p.Replicas(tok).Natural, piece.Replicas.Natural) {
				t.Fatalf("token %d: %v, in %s %v", tok, p.Replicas(tok), r, piece.Replicas)
			}
		}
	}
}

// A replica set contains no node twice, as many nodes as the data centers allow, and no joining node.
func TestReplicaSetsAreCompleteAndDistinct(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		top := randomTopology(rng)
		r := randomReplication(rng)
		if rng.IntN(4) == 0 {
			r = EverywhereOn(top.Nodes())
		}
		owners := map[string]int{}
		for _, n := range top.Nodes() {
			if n.State != Joining {
				owners[n.Datacenter]++
				owners[""]++
			}
		}
		want := min(r.Factor, owners[""])
		if r.ByDatacenter() {
			want = 0
			for _, f := range r.Datacenters {
				want += min(f.Factor, owners[f.Datacenter])
			}
		}
		for _, tok := range top.Tokens() {
			set := top.Placement(r).Replicas(tok)
			ids := slices.Sorted(slices.Values(set.Natural))
			if len(slices.Compact(ids)) != want {
				t.Fatalf("%v: replicas %v, want %d", r, set.Natural, want)
			}
			for _, id := range set.Natural {
				if top.Node(id).State == Joining || !set.Contains(id) {
					t.Fatalf("replica %d is joining", id)
				}
			}
		}
	}
}

func TestEmptyRingHasNoReplicas(t *testing.T) {
	p := NewTopology(0, nil).Placement(Replication{Class: Simple, Factor: 4})
	if s := p.Replicas(0); s.Natural != nil || s.Contains(0) || p.Ranges(FullRange()) != nil {
		t.Error("an empty ring has replicas")
	}
}

func TestPlacementsAreKeptAndBounded(t *testing.T) {
	top := growth(cycle(3, member{"dc1", "r1"})...)[2]
	r := NewNetworkTopology(DatacenterFactor{"dc1", 3})
	if top.Placement(r) != top.Placement(NewNetworkTopology(DatacenterFactor{"dc1", 3})) {
		t.Error("a placement was computed twice")
	}
	if n := testing.AllocsPerRun(100, func() { top.Placement(r).Replicas(1) }); n != 0 {
		t.Errorf("%v allocations to find replicas", n)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 10 * placementsMax {
				want := Replication{Class: Simple, Factor: 1 + (i+g)%(3*placementsMax)}
				if p := top.Placement(want); !p.Replication().Equal(want) ||
					len(p.Replicas(1).Natural) != min(3, want.Factor) {
					t.Errorf("placements of %v and %v are the same", want, p.Replication())
				}
			}
		})
	}
	wg.Wait()
	if n := len(*top.placements.Load()); n > placementsMax {
		t.Errorf("%d placements are kept", n)
	}
}

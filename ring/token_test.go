package ring

import (
	"math/rand/v2"
	"testing"
	"testing/quick"
)

// edgeTokens returns tokens at the limits of ranges.
func edgeTokens() []Token { return []Token{MinToken, MinToken + 1, -1, 0, 1, MaxToken - 1, MaxToken} }

func eachRange(f func(Range)) {
	for _, a := range edgeTokens() {
		for _, b := range edgeTokens() {
			f(Range{a, b})
		}
	}
}

// A range contains the tokens after Start, in ascending order with wrap-around, up to End.
func TestRangeContainsItsTokens(t *testing.T) {
	eachRange(func(r Range) {
		for _, tok := range edgeTokens()[1:] {
			// Distances around the ring; the whole ring if Start is End.
			want := r.Start == r.End || uint64(tok)-uint64(r.Start)-1 <= uint64(r.End)-uint64(r.Start)-1
			if got := r.Contains(tok); got != want {
				t.Errorf("%s contains %d: %v", r, tok, got)
			}
		}
	})
}

func TestUnwrapKeepsTheTokens(t *testing.T) {
	eachRange(func(r Range) {
		parts := r.Unwrap()
		for i, p := range parts {
			if p.Wraps() && p != r || i > 0 && p.Start < parts[i-1].End {
				t.Errorf("%s: part %s wraps or is out of order", r, p)
			}
		}
		for _, tok := range edgeTokens()[1:] {
			n := 0
			for _, p := range parts {
				if p.Contains(tok) {
					n++
				}
			}
			if want := r.Contains(tok); n > 1 || (n == 1) != want {
				t.Errorf("%s unwraps to %v: %d lies in %d of them, %v before", r, parts, tok, n, want)
			}
		}
	})
}

// A range and its complement are disjoint and together cover the ring.
func TestRangeAndComplement(t *testing.T) {
	law := func(a, b, tok Token) bool {
		if a == b || tok == MinToken {
			return true
		}
		return (Range{a, b}).Contains(tok) != (Range{b, a}).Contains(tok)
	}
	if err := quick.Check(law, nil); err != nil {
		t.Error(err)
	}
	for _, a := range edgeTokens() {
		for _, b := range edgeTokens() {
			for _, tok := range edgeTokens() {
				if !law(a, b, tok) {
					t.Errorf("%d, %d: %d lies in both or none", a, b, tok)
				}
			}
		}
	}
}

// randomTopology returns up to eight nodes in up to three data centers, some of them joining.
func randomTopology(rng *rand.Rand) *Topology {
	var nodes []*Node
	for i := range 1 + rng.IntN(8) {
		n := &Node{ID: NodeID(i + 1), Datacenter: string(rune('a' + rng.IntN(3))),
			Rack: string(rune('r' + rng.IntN(3))), State: Normal}
		if rng.IntN(8) == 0 {
			n.State = Joining
		}
		for range 1 + rng.IntN(6) {
			n.Tokens = append(n.Tokens, Token(rng.Uint64()))
		}
		nodes = append(nodes, n)
	}
	return NewTopology(1, nodes)
}

func randomReplication(rng *rand.Rand) Replication {
	if rng.IntN(2) == 0 {
		return Replication{Class: Simple, Factor: 1 + rng.IntN(5)}
	}
	return NewNetworkTopology(DatacenterFactor{"c", rng.IntN(4)}, DatacenterFactor{"a", rng.IntN(5)},
		DatacenterFactor{"b", 1})
}
func TestSharesAddUpToOne(t *testing.T) {
	if got := FullRange().Share(); got != 1 {
		t.Errorf("the whole ring is %v", got)
	}
	sum := Range{Start: MinToken, End: -5}.Share() + Range{Start: -5, End: 1 << 62}.Share() +
		Range{Start: 1 << 62, End: MinToken}.Share()
	if sum < 0.999999 || sum > 1.000001 {
		t.Errorf("the parts are %v", sum)
	}
	if got := (Range{Start: 1 << 62, End: -1 << 62}).Share(); got != 0.5 {
		t.Errorf("a range that wraps is %v", got)
	}
}

package lost

import (
	"math/rand/v2"
	"testing"

	"cqld/ring"
)

// TestRangesAreSets compares the arithmetic with looking at tokens one by one.
func TestRangesAreSets(t *testing.T) {
	tokens := []ring.Token{ring.MinToken, ring.MinToken + 1, -3, 0, 1, 2, 9, ring.MaxToken}
	rng := rand.New(rand.NewPCG(1, 1))
	draw := func() ring.Range {
		for {
			if r := (ring.Range{Start: tokens[rng.IntN(len(tokens))], End: tokens[rng.IntN(len(tokens))]}); !r.Wraps() {
				return r
			}
		}
	}
	for range 3000 {
		a, b := draw(), draw()
		within := func(rs []ring.Range, at ring.Token) bool {
			for _, r := range rs {
				if r.Wraps() {
					t.Fatalf("%v of %v and %v wraps", r, a, b)
				}
				if r.Contains(at) {
					return true
				}
			}
			return false
		}
		for _, at := range tokens[1:] {
			if got := within(cut(a, b), at); got != (a.Contains(at) && b.Contains(at)) {
				t.Fatalf("%v and %v: %v is in it: %v", a, b, at, got)
			}
			if got := within(Without([]ring.Range{a}, b), at); got != (a.Contains(at) && !b.Contains(at)) {
				t.Fatalf("%v without %v: %v is in it: %v", a, b, at, got)
			}
		}
	}
}

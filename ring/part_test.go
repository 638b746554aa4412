package ring

import (
	"math/rand/v2"
	"testing"
)

func TestPartsCoverTheRangeOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		r := Range{Token(rng.Uint64()), Token(rng.Uint64())}
		if rng.IntN(2) == 0 {
			r.End = r.Start + Token(1+rng.IntN(20))
		}
		if r.Wraps() || r.Start == r.End {
			r = Range{Token(rng.Uint64() | 1<<63), MinToken}
		}
		n := 1 + rng.IntN(64)
		at := r.Start
		for i := range n {
			p := r.Part(i, n)
			if p.Start != at {
				t.Fatalf("%v in %d: part %d is %v, the one before ends at %v", r, n, i, p, at)
			}
			if at = p.End; p.Start == p.End {
				continue
			}
			for _, token := range []Token{p.Start + 1, p.End, p.Start + 1 + Token(rng.Uint64N(p.span()))} {
				if got := r.PartOf(token, n); got != i || !p.Contains(token) && token != MinToken {
					t.Fatalf("%v in %d: %v lies in part %d %v, not in %d", r, n, token, i, p, got)
				}
			}
		}
		if at != r.End {
			t.Fatalf("%v in %d: ends at %v", r, n, at)
		}
	}
}

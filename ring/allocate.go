package ring

import (
	"math"
	"slices"

	"cqld/internal/invariant"
)

// Allocate returns count tokens for a node that joins rack of datacenter, such that the ownership of the nodes there
// stays even, both as first replicas and with factor replicas counted (the aim of Cassandra's
// allocate_tokens_for_local_replication_factor). It is deterministic: the same topology gives the same tokens on
// every machine.
func Allocate(t *Topology, datacenter, rack string, count, factor int) []Token {
	l := newLayout(t, datacenter, rack, max(1, factor))
	var tokens []Token
	if len(l.tokens) == 0 {
		tokens = evenTokens(count)
	} else {
		tokens = newSearch(l, count).run()
	}
	// The layout contains only the tokens of one data center, but a token must be unique in the whole ring.
	for i, tok := range tokens {
		tokens[i] = t.free(tok, tokens[:i])
	}
	slices.Sort(tokens)
	t.checkNew(tokens, count)
	return tokens
}

// free returns tok, or the first token after it that no node has, in any data center.
func (t *Topology) free(tok Token, taken []Token) Token {
	for {
		_, used := slices.BinarySearch(t.bounds, tok)
		if !used && tok != MinToken && !slices.Contains(taken, tok) {
			return tok
		}
		tok++
	}
}

// evenTokens returns tokens that divide the ring into equal ranges.
func evenTokens(count int) []Token {
	out := make([]Token, count)
	for i := range out {
		// Counted from MinToken, and half a range later: no token is MinToken.
		out[i] = Token(uint64(1)<<63 + uint64((float64(i)+0.5)/float64(count)*ringSize))
	}
	return out
}

// The search is simulated annealing. searchMoves bounds its cost, ≈ 1 µs per move while there are at most
// searchTokens in the ring. Larger rings get fewer moves, because random placement is more even there. Temperatures
// are in units of layout.unevenness, in which one node that owns 5 % too much counts for 0.0025. The search ends
// early when evenEnough is reached.
const (
	searchMoves  = 60_000
	searchTokens = 512
	tempFirst    = 0.02
	tempHalvings = 15
	evenEnough   = 1e-5
)

// search moves the tokens of a joining node to make ownership more even.
type search struct {
	l      *layout
	tokens []Token
	state  uint64    // state of the pseudo-random sequence
	undo   []float64 // layout.owned before the current move
}

// newSearch returns a search whose tokens divide the widest ranges, which adds them to the layout.
func newSearch(l *layout, count int) *search {
	s := &search{l: l, undo: make([]float64, len(l.owned))}
	// Good initial positions shorten the search: each token halves the currently widest range.
	for range count {
		tok := s.widestMiddle()
		l.insert(tok, l.newcomer())
		s.tokens = append(s.tokens, tok)
	}
	return s
}

// widestMiddle returns the middle of the widest range.
func (s *search) widestMiddle() Token {
	widest := 0
	for i := range s.l.tokens {
		if s.l.width(i) > s.l.width(widest) {
			widest = i
		}
	}
	return s.inside(widest, 0.5)
}

// inside returns the token at a fraction of the range that ends at tokens[i].
func (s *search) inside(i int, fraction float64) Token {
	return Token(uint64(s.l.tokens[i]) - uint64(s.l.width(i)*(1-fraction)*ringSize))
}

// next returns the next number of a fixed sequence (SplitMix64).
func (s *search) next() uint64 {
	s.state += 0x9E3779B97F4A7C15
	z := s.state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// fraction returns the next number of the sequence, in [0, 1).
func (s *search) fraction() float64 { return float64(s.next()>>11) / (1 << 53) }

// run anneals and returns the best tokens found.
func (s *search) run() []Token {
	now := s.l.unevenness()
	least, best := now, slices.Clone(s.tokens)
	moves := searchMoves * searchTokens / max(searchTokens, len(s.l.tokens))
	for move := 0; move < moves && least > evenEnough; move++ {
		// The temperature is halved in steps by an integer shift, which is the same on every machine.
		temp := tempFirst / float64(int(1)<<(move*tempHalvings/moves))
		i := int(s.next() % uint64(len(s.tokens)))
		from := s.tokens[i]
		to, ok := s.propose(from, temp)
		if ok {
			copy(s.undo, s.l.owned)
			s.move(i, to)
			// A move that makes the ring less even is accepted with a probability that falls with the temperature.
			if u := s.l.unevenness(); u < now+float64(temp*s.fraction()) {
				now = u
				if u < least {
					least = u
					copy(best, s.tokens)
				}
			} else {
				s.takeBack(i, from)
			}
		}
	}
	if invariant.Enabled {
		s.l.check()
	}
	return best
}

// move moves token i of the newcomer in the layout.
func (s *search) move(i int, to Token) {
	// remove requires that another token remains. Allocate searches only if other nodes have tokens.
	s.l.remove(s.tokens[i])
	s.l.insert(to, s.l.newcomer())
	s.tokens[i] = to
}

// takeBack undoes the last move, including its rounding errors in owned.
func (s *search) takeBack(i int, to Token) {
	// Restoring the saved ownership is exact. Subtracting and adding the shares again would leave rounding errors,
	// which differ with the order of the moves.
	p, _ := s.l.find(s.tokens[i])
	s.l.displace(p)
	p, _ = s.l.find(to)
	s.l.place(p, to, s.l.newcomer())
	s.tokens[i] = to
	copy(s.l.owned, s.undo)
}

// propose returns another position for a token: near the current one, and the nearer the lower the temperature, or,
// in one case of four, anywhere.
func (s *search) propose(from Token, temp float64) (Token, bool) {
	var to Token
	if s.next()%4 == 0 {
		to = s.inside(int(s.next()%uint64(len(s.l.tokens))), s.fraction())
	} else {
		// At most one mean range in each direction; a token that crosses a neighbor is allowed.
		step := ringSize / float64(len(s.l.tokens)) * math.Min(1, 30*math.Sqrt(temp))
		to = from + Token((2*s.fraction()-1)*step)
	}
	return to, to != MinToken && s.roomy(to)
}

// narrowest is the minimum width of a range, relative to the mean: a narrower range would waste a token and require a
// partition of its own.
const narrowest = 1.0 / 64

// roomy reports whether a token would leave no range too narrow.
func (s *search) roomy(to Token) bool {
	n := len(s.l.tokens)
	least := uint64(ringSize / float64(n) * narrowest)
	i, _ := s.l.find(to)
	return uint64(s.l.tokens[i%n])-uint64(to) >= least && uint64(to)-uint64(s.l.tokens[(i+n-1)%n]) >= least
}

package ring

import (
	"math"
	"slices"
)

// Allocate chooses count tokens for a node that joins datacenter, so that what the nodes there own
// stays even, both as first replicas and with factor replicas counted (the aim of Cassandra's
// allocate_tokens_for_local_replication_factor). It draws nothing by chance.
func Allocate(t *Topology, datacenter string, count, factor int) []Token {
	tokens := fairCuts(t, datacenter, count)
	return improve(t, datacenter, tokens, factor)
}

// fairCuts makes primary ranges even: each present node gives up the part that it owns beyond the
// new fair share, cut off its widest ranges.
func fairCuts(t *Topology, datacenter string, count int) []Token {
	pieces := ownedPieces(t, datacenter)
	if len(pieces) == 0 {
		return evenTokens(t, count)
	}
	owners := map[NodeID][]piece{}
	var ids []NodeID
	for _, p := range pieces {
		if _, ok := owners[p.owner]; !ok {
			ids = append(ids, p.owner)
		}
		owners[p.owner] = append(owners[p.owner], p)
	}
	slices.Sort(ids)
	share := ringSize / float64(len(ids)+1)
	var out []Token
	for left := count; left > 0; left-- {
		need := (share - taken(out, pieces)) / float64(left)
		// The node that owns most beyond its share gives next.
		giver := slices.MaxFunc(ids, func(a, b NodeID) int { return compareFloat(width(owners[a]), width(owners[b])) })
		surplus := width(owners[giver]) - share
		cut := math.Max(need, math.Min(surplus, need*float64(left)))
		tok, rest := cutWidest(owners[giver], need, cut)
		owners[giver] = rest
		out = append(out, tok)
	}
	slices.Sort(out)
	return out
}

const ringSize = float64(1<<63) * 2

// piece is a range of tokens (start, start+width] that one node owns.
type piece struct {
	start Token
	width float64
	owner NodeID
}

// ownedPieces are the primary ranges of a data center's own ring.
func ownedPieces(t *Topology, datacenter string) []piece {
	var tokens []Token
	var owner []NodeID
	for i, tok := range t.tokens {
		if t.owner[i].Datacenter == datacenter {
			tokens = append(tokens, tok)
			owner = append(owner, t.owner[i].ID)
		}
	}
	var out []piece
	for i := range tokens {
		prev := tokens[(i+len(tokens)-1)%len(tokens)]
		w := float64(uint64(tokens[i]) - uint64(prev))
		if len(tokens) == 1 {
			w = ringSize
		}
		out = append(out, piece{prev, w, owner[i]})
	}
	return out
}

func evenTokens(t *Topology, count int) []Token {
	step := uint64(math.MaxUint64)/uint64(count) + 1
	if count == 1 {
		step = 0
	}
	offset := uint64(len(t.tokens)) * 1_000_003 // apart from those of other data centers
	out := make([]Token, count)
	for i := range out {
		out[i] = Token(uint64(1)<<63 + step/2 + offset + uint64(i)*step)
	}
	slices.Sort(out)
	return out
}

func width(pieces []piece) (w float64) {
	for _, p := range pieces {
		w += p.width
	}
	return w
}

func compareFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// taken is how much of the pieces the tokens chosen so far take over.
func taken(tokens []Token, pieces []piece) (w float64) {
	for _, tok := range tokens {
		for _, p := range pieces {
			if d := float64(uint64(tok) - uint64(p.start)); d > 0 && d <= p.width {
				w += d
				break
			}
		}
	}
	return w
}

// cutWidest cuts between need and most off the start of the widest piece, leaving it at least a
// tenth, and returns the new token and the pieces that remain.
func cutWidest(pieces []piece, need, most float64) (Token, []piece) {
	i := 0
	for k := range pieces {
		if pieces[k].width > pieces[i].width {
			i = k
		}
	}
	p := pieces[i]
	w := math.Min(math.Max(need, math.Min(most, need)), p.width*0.9)
	rest := slices.Clone(pieces)
	tok := Token(uint64(p.start) + uint64(w))
	rest[i] = piece{tok, p.width - w, p.owner}
	return tok, rest
}

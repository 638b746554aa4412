package ring

import (
	"slices"
	"sort"
)

// tokenRing is the ownership of tokens at one stage of the operations in progress.
type tokenRing struct {
	tokens []Token // ascending; owner[i] owns tokens[i]
	owner  []*Node
	// members are the nodes that own tokens.
	members []*Node
}

// newTokenRing returns the ring of the nodes that own tokens, after the operations for which done returns true.
func newTokenRing(nodes []*Node, operations []*Operation, done func(*Operation) bool) *tokenRing {
	owned := make(map[NodeID][]Token, len(nodes))
	// A joining node owns no tokens; its operation brings them.
	for _, n := range nodes {
		if n.State != Joining {
			owned[n.ID] = n.Tokens
		}
	}
	for _, o := range operations {
		if done(o) {
			o.apply(owned)
		}
	}
	r := &tokenRing{}
	type entry struct {
		token Token
		node  *Node
	}
	var entries []entry
	for _, n := range nodes {
		if len(owned[n.ID]) > 0 {
			r.members = append(r.members, n)
		}
		for _, tok := range owned[n.ID] {
			entries = append(entries, entry{tok, n})
		}
	}
	// By node, too, so that the order is the same on all machines even if two nodes claim one token, which check
	// reports.
	slices.SortFunc(entries, func(a, b entry) int {
		switch {
		case a.token < b.token:
			return -1
		case a.token > b.token:
			return 1
		}
		return int(int64(a.node.ID) - int64(b.node.ID))
	})
	for _, e := range entries {
		r.tokens = append(r.tokens, e.token)
		r.owner = append(r.owner, e.node)
	}
	return r
}

// position returns the index of the token whose range contains tok: the first one ≥ tok, wrapping.
func (r *tokenRing) position(tok Token) int { return positionIn(r.tokens, tok) }

// positionIn is position for any ascending tokens, at least one.
func positionIn(tokens []Token, tok Token) int {
	i := sort.Search(len(tokens), func(i int) bool { return tokens[i] >= tok })
	// Tokens after the last one belong to the range of the first.
	if i == len(tokens) {
		return 0
	}
	return i
}

// replicas returns the nodes of the range that contains tok, in the strategy's order.
func (r *tokenRing) replicas(of Replication, tok Token) []NodeID {
	if len(r.tokens) == 0 {
		return nil
	}
	switch of.Class {
	case Simple:
		return r.simple(r.position(tok), of.Factor)
	case NetworkTopology:
		return r.network(r.position(tok), of.Datacenters)
	// The members of this stage of the ring, not the factors of the present one.
	case Everywhere:
		return r.simple(r.position(tok), len(r.members))
	}
	return nil
}

// merged returns the tokens of all rings, ascending and without duplicates.
func merged(rings ...*tokenRing) []Token {
	var out []Token
	for _, r := range rings {
		out = append(out, r.tokens...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

package ring

import "slices"

// Transfer changes the owner of one token, by an operation of the kind Reassign.
//
//	From 0   the token is added: it divides a range
//	To 0     the token is removed: its range becomes part of the next one
//
// A token that is added with the owner of the range that it divides, or removed before a token of the same owner,
// changes no replica set under any replication: on the walk around the ring, the two tokens of one node are neighbors,
// and the second of them selects nothing.
type Transfer struct {
	Token    Token
	From, To NodeID
}

// NodeOf returns the node by which a Reassign with these transfers is listed: the first that gets a token or, if none
// does, the first that loses one. It is zero if there are no transfers.
func NodeOf(transfers []Transfer) NodeID {
	for _, x := range transfers {
		if x.To != 0 {
			return x.To
		}
	}
	if len(transfers) == 0 {
		return 0
	}
	return transfers[0].From
}

// Needs reports whether the operation cannot end without id, because it gives tokens to this node, or is about it.
func (o *Operation) Needs(id NodeID) bool {
	return id == o.Node || slices.ContainsFunc(o.Transfers, func(x Transfer) bool { return x.To == id })
}

// AfterTransfers returns the tokens of a member after o, a Reassign, ascending. tokens, its present ones, is not
// modified.
func (o *Operation) AfterTransfers(id NodeID, tokens []Token) []Token {
	owned := map[NodeID][]Token{id: tokens}
	reassign(owned, o.Transfers)
	return slices.Sorted(slices.Values(owned[id]))
}

// reassign performs transfers. The lists in owned belong to nodes, so it replaces those that change.
func reassign(owned map[NodeID][]Token, transfers []Transfer) {
	for _, x := range transfers {
		if had := owned[x.From]; x.From != 0 && len(had) > 0 {
			owned[x.From] = slices.DeleteFunc(slices.Clone(had), func(t Token) bool { return t == x.Token })
		}
		if x.To != 0 {
			owned[x.To] = append(slices.Clone(owned[x.To]), x.Token)
		}
	}
}

// reassigned reports whether the members of t own the tokens as after the transfers.
func reassigned(t *Topology, transfers []Transfer) bool {
	for _, x := range transfers {
		id, has := x.To, true
		if id == 0 {
			id, has = x.From, false
		}
		n := t.Node(id)
		if n == nil || slices.Contains(n.Tokens, x.Token) != has {
			return false
		}
	}
	return true
}

package simulation

import (
	"cmp"
	"fmt"
	"slices"

	"cqld/ring"
	"cqld/simulation/kernel"
)

// reassignedMost is the maximum number of tokens of one reassignment.
const reassignedMost = 3

// splitRange divides a range, or isolates one token in a range of its own. No replica set changes.
func (op *operator) splitRange(r *kernel.Stream) {
	t := op.topology()
	if t == nil {
		return
	}
	at := r.Intn(len(t.Tokens()))
	n := len(t.Tokens())
	end, owner := t.Tokens()[at], t.Owner(at).ID
	tok := end - 1
	// Distances around the ring are differences of unsigned numbers.
	if width := uint64(end) - uint64(t.Tokens()[(at+n-1)%n]); r.Chance(700) && width > 1 {
		tok = end - ring.Token(1+r.Uint64()%(width-1))
	}
	op.reassign(r, []ring.Transfer{{Token: tok, To: owner}}, "ranges split")
}

// mergeRanges removes a token: of two that follow each other and have one owner, if there are such, and any otherwise.
func (op *operator) mergeRanges(r *kernel.Stream) {
	t := op.topology()
	if t == nil {
		return
	}
	n := len(t.Tokens())
	first := r.Intn(n)
	at := first
	for range n {
		if t.Owner(at) == t.Owner((at+1)%n) {
			break
		}
		at = (at + 1) % n
	}
	op.reassign(r, []ring.Transfer{{Token: t.Tokens()[at], From: t.Owner(at).ID}}, "ranges merged")
}

// reassignTokens gives some tokens of the ring to other members, in one operation.
func (op *operator) reassignTokens(r *kernel.Stream) {
	t := op.topology()
	if t == nil {
		return
	}
	var all []ring.Transfer
	for range 1 + r.Intn(reassignedMost) {
		at := r.Intn(len(t.Tokens()))
		to := t.Nodes()[r.Intn(len(t.Nodes()))].ID
		all = append(all, ring.Transfer{Token: t.Tokens()[at], From: t.Owner(at).ID, To: to})
	}
	op.reassign(r, all, "tokens reassigned")
}

// topology returns the ring as a process knows it, or nil if none runs, or no node owns a token.
func (op *operator) topology() *ring.Topology {
	if m := op.c.metadata(); m != nil && len(m.Topology.Tokens()) > 0 {
		return m.Topology
	}
	return nil
}

// reassign sends transfers, in any order, to a drawn node. A refusal is an outcome like any other: tokens may be listed
// twice, or already have the owner.
func (op *operator) reassign(r *kernel.Stream, transfers []ring.Transfer, counted string) {
	n := op.c.any(r)
	l := n.process
	if !l.serves() {
		return
	}
	slices.SortFunc(transfers, func(a, b ring.Transfer) int { return cmp.Compare(a.Token, b.Token) })
	l.Soon(func() {
		l.requests++
		l.cluster.Operations().StartReassign(transfers, func(err error) {
			l.requests--
			op.c.kernel.Trace(fmt.Sprint("reassign ", n.id, transfers, err))
			if err == nil {
				op.c.count(counted)
			}
		})
	})
}

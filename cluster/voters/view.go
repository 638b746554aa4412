package voters

import (
	"slices"

	"cqld/internal/invariant"
	"cqld/ring"
)

// View is the set of voters, as this node knows it.
//
// It combines Raft's membership with this node's failure detector. nil means that the voters are not known yet.
type View struct {
	// IDs are the voters, ascending; during a change, the voters of both sets.
	IDs []ring.NodeID
	// Leader is zero if this node knows none.
	Leader ring.NodeID
	// Alive is the number of live voters, and Required the number that a decision needs. While the voters change, they
	// describe the set that is further from a majority.
	Alive, Required int
	// Down are the dead voters, ascending.
	Down []ring.NodeID
}

// Has reports whether a node votes. It may be called with a nil View, which has no voters.
func (v *View) Has(id ring.NodeID) bool { return v != nil && slices.Contains(v.IDs, id) }

// Majority reports whether enough voters are alive.
func (v *View) Majority() bool { return v == nil || v.Alive >= v.Required }

// Of returns the view of a membership. outgoing are the previous voters, which also decide while the voters change.
func Of(leader ring.NodeID, current, outgoing []uint64, isAlive func(ring.NodeID) bool) *View {
	v := &View{Leader: leader}
	for i, ids := range [][]uint64{current, outgoing} {
		alive := 0
		for _, id := range ids {
			id := ring.NodeID(id)
			if isAlive(id) {
				alive++
			} else {
				v.Down = append(v.Down, id)
			}
			v.IDs = append(v.IDs, id)
		}
		// Both sets must agree during a change, so the set that lacks more voters counts.
		if need := len(ids)/2 + 1; i == 0 || len(ids) > 0 && alive-need < v.Alive-v.Required {
			v.Alive, v.Required = alive, need
		}
	}
	invariant.Check(v.Alive <= len(current)+len(outgoing), "voters: more voters are alive than there are")
	slices.Sort(v.IDs)
	slices.Sort(v.Down)
	// Most voters are in both sets.
	v.IDs, v.Down = slices.Compact(v.IDs), slices.Compact(v.Down)
	return v
}

// Equal reports whether two views are the same.
func (v *View) Equal(o *View) bool {
	return v.Leader == o.Leader && v.Alive == o.Alive && v.Required == o.Required && slices.Equal(v.IDs, o.IDs) &&
		slices.Equal(v.Down, o.Down)
}

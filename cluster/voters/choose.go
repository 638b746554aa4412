package voters

import (
	"cmp"
	"slices"

	"cqld/internal/invariant"
)

// Bounds of the voting members; the other members are learners. Five voters survive the loss of two. Seven are used in
// rings of three or more data centers, so that the loss of one data center leaves a spare voter in most cases.
const (
	votersMax            = 5
	votersMaxDatacenters = 7
)

// Candidate is a member that may vote.
//
// The caller excludes learners that lag behind.
type Candidate struct {
	ID         uint64 // Raft's, which is the node's
	Datacenter string
	Rack       string
	Votes      bool // it currently votes
	Alive      bool // in the leader's view
	Leads      bool
}

// Choose returns the members that should vote, ascending. It depends on its argument only.
//
//  1. The number of voters is odd, or zero without candidates.
//  2. With three or more data centers, or one data center of three or more racks, no data center (rack) has a majority:
//     the loss of any one of them leaves a majority.
//  3. Among the numbers that allow this, the largest one up to the maximum is chosen. The voters are spread as evenly
//     as the members allow over data centers, and within a data center over racks.
//  4. Members that vote keep their vote if they can: the result for the chosen voters is these voters, whichever of the
//     others are candidates or lead.
func Choose(candidates []Candidate) []uint64 {
	all := group{members: slices.Clone(candidates)}
	domains := all.split(func(c Candidate) string { return c.Datacenter })
	most := votersMax
	switch {
	case len(domains) >= 3:
		most = votersMaxDatacenters
	// With one data center, racks are the failure domains. With two data centers, neither is dispensable (ADR 41), so
	// voters are only spread.
	case len(domains) == 1:
		domains = all.split(func(c Candidate) string { return c.Rack })
	}
	seats, limit := seatsOf(domains, most)
	var ids []uint64
	for i, n := range distribute(domains, seats, limit) {
		// Within a data center, racks have no limit: its number of seats is already bounded.
		racks := domains[i].split(func(c Candidate) string { return c.Rack })
		for j, n := range distribute(racks, n, n) {
			for _, c := range racks[j].ranked()[:n] {
				ids = append(ids, c.ID)
			}
		}
	}
	slices.Sort(ids)
	checkChoice(ids, seats)
	return ids
}

// checkChoice checks the first rule of Choose, and that no voter is chosen twice.
func checkChoice(ids []uint64, seats int) {
	invariant.Check(len(ids) == seats, "voters: %d of %d seats are taken", len(ids), seats)
	invariant.Check(seats == 0 || seats%2 == 1, "voters: an even number of voters")
	invariant.Check(seats <= votersMaxDatacenters, "voters: too many voters")
	for i := 1; i < len(ids); i++ {
		invariant.Check(ids[i-1] < ids[i], "voters: a member has two votes")
	}
}

// seatsOf returns the number of voters, and the maximum number in one domain.
func seatsOf(domains []group, most int) (seats, limit int) {
	// The largest number comes first. One seat is always possible if there is a candidate.
	for seats = most; seats > 0; seats -= 2 {
		sum := 0
		limit = seats
		// The largest minority: without it, the other domains still have a majority.
		if len(domains) >= 3 && seats > 1 {
			limit = (seats - 1) / 2
		}
		for _, d := range domains {
			sum += min(limit, len(d.members))
		}
		if sum >= seats {
			return seats, limit
		}
	}
	return 0, 0
}

// distribute assigns seats to groups, one at a time, each to a group that has the fewest seats and may have more.
// Groups with more current voters come first, so an uneven remainder stays where it is.
func distribute(groups []group, seats, limit int) []int {
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	// The oldest member breaks ties, so the order is total and the same on every node.
	slices.SortFunc(order, func(i, j int) int {
		a, b := &groups[i], &groups[j]
		return cmp.Or(cmp.Compare(b.count(Candidate.voter), a.count(Candidate.voter)),
			cmp.Compare(b.count(Candidate.leader), a.count(Candidate.leader)), cmp.Compare(a.oldest(), b.oldest()))
	})
	out := make([]int, len(groups))
	for ; seats > 0; seats-- {
		next := -1
		for _, i := range order {
			// Strictly fewer: among equals, the first group gets the seat.
			if out[i] < min(limit, len(groups[i].members)) && (next < 0 || out[i] < out[next]) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		out[next]++
	}
	return out
}

// group contains the candidates of a data center or a rack.
type group struct{ members []Candidate }

// split divides the members by name. The groups are sorted by name.
func (g group) split(name func(Candidate) string) (out []group) {
	members := slices.Clone(g.members)
	// Stable, so the order within a group is kept.
	slices.SortStableFunc(members, func(a, b Candidate) int { return cmp.Compare(name(a), name(b)) })
	for i, c := range members {
		if i == 0 || name(members[i-1]) != name(c) {
			out = append(out, group{})
		}
		last := &out[len(out)-1]
		last.members = append(last.members, c)
	}
	return out
}

// ranked returns the members in the order in which they are chosen: current voters, then live members, the leader, and
// the oldest.
func (g group) ranked() []Candidate {
	out := slices.Clone(g.members)
	rank := func(c Candidate) int {
		n := 0
		// Each later property outweighs all earlier ones together.
		for i, yes := range []bool{c.Leads, c.Alive, c.Votes} {
			if yes {
				n |= 1 << i
			}
		}
		return -n
	}
	slices.SortFunc(out, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.ID, b.ID))
	})
	return out
}

func (g group) count(which func(Candidate) bool) (n int) {
	for _, c := range g.members {
		if which(c) {
			n++
		}
	}
	return n
}

func (g group) oldest() uint64 {
	return slices.MinFunc(g.members, func(a, b Candidate) int { return cmp.Compare(a.ID, b.ID) }).ID
}

func (c Candidate) voter() bool  { return c.Votes }
func (c Candidate) leader() bool { return c.Leads }

// Replace is Choose, but replaces voters that have been dead for long, if more voters can then fail without losing the
// majority.
func Replace(all []Candidate, longDead func(id uint64) bool) []uint64 {
	next := Choose(all)
	// Voters that died recently stay candidates, and Choose keeps their votes.
	usable := slices.DeleteFunc(slices.Clone(all), func(c Candidate) bool { return !c.Alive && longDead(c.ID) })
	if len(usable) == len(all) {
		return next
	}
	if instead := Choose(usable); Spare(all, instead) > Spare(all, next) {
		return instead
	}
	return next
}

// Spare returns how many live voters can fail before the majority is lost. It is negative if there is no majority.
func Spare(all []Candidate, voters []uint64) (n int) {
	for _, c := range all {
		if c.Alive && slices.Contains(voters, c.ID) {
			n++
		}
	}
	return n - (len(voters)/2 + 1)
}

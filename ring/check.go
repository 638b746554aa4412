package ring

import (
	"errors"
	"slices"

	"cqld/internal/invariant"
)

// The values of this package are immutable, so their invariants are checked once, when a value is made:
//
//  1. A topology has no node twice, and its operations are ordered by id.
//  2. Nothing in a topology is later than its epoch.
//  3. At each stage of the operations, a token has one owner.
//  4. A range has as many different replicas as its replication and the nodes allow, in as many racks as possible.
//  5. A node that is pending is not natural, and is not dead.
//  6. The ranges that a node gains are disjoint and do not wrap. It streams none of them from itself.
//  7. The tokens of a joining node are new.
//  8. The parts of a range cover it without overlap.

// check returns an error if invariant 1, 2 or 3 is broken.
//
// It returns an error instead of stopping the program, because the values may come from a disk or another node.
func (t *Topology) check() error {
	last := NodeID(0)
	for _, n := range t.nodes {
		if n.ID <= last {
			return errors.New("ring: two nodes have one id, or a node has none")
		}
		last = n.ID
	}
	if t.moved > t.epoch {
		return errors.New("ring: ownership changed at a later epoch")
	}
	began := uint64(0)
	for _, o := range t.operations {
		switch {
		case o.ID <= began:
			return errors.New("ring: operations are not in the order of their ids")
		case o.ID > t.epoch || o.Switched > t.epoch:
			return errors.New("ring: an operation began or switched at a later epoch")
		}
		began = o.ID
	}
	for _, r := range []*tokenRing{t.reads, t.base, t.final} {
		if !ascending(r.tokens) {
			return errors.New("ring: two nodes own one token")
		}
	}
	return nil
}

// ascending reports whether each token is greater than the one before.
func ascending(tokens []Token) bool {
	for i := 1; i < len(tokens); i++ {
		if tokens[i-1] >= tokens[i] {
			return false
		}
	}
	return true
}

// check checks invariants 4 and 5.
func (p *Placement) check() {
	wanted := p.topology.reads.replicasMax(p.replication)
	for i := range p.sets {
		s := &p.sets[i]
		invariant.Check(len(s.Natural) == wanted, "ring: a range has too few or too many replicas")
		invariant.Check(different(s.Natural), "ring: a node is two replicas of a range")
		for _, id := range s.Pending {
			invariant.Check(!slices.Contains(s.Natural, id), "ring: a natural replica is pending")
			invariant.Check(!p.topology.Gone(id), "ring: a dead node is pending")
		}
		// Counting racks takes longer than the placement, so it is checked only in tests.
		if invariant.Enabled {
			p.checkRacks(s.Natural)
		}
	}
}

// different reports whether no node is listed twice. Lists of replicas are short.
func different(nodes []NodeID) bool {
	for i, id := range nodes {
		if slices.Contains(nodes[:i], id) {
			return false
		}
	}
	return true
}

// replicasMax returns the number of replicas of each range: as many as the replication wants, if there are as many
// nodes.
func (r *tokenRing) replicasMax(of Replication) int {
	switch of.Class {
	case Simple:
		return min(of.Factor, len(r.members))
	case Everywhere:
		return len(r.members)
	case NetworkTopology:
		n := 0
		for _, f := range of.Datacenters {
			nodes, _ := r.within(r.members, f.Datacenter)
			n += max(0, min(f.Factor, nodes))
		}
		return n
	}
	return 0
}

// within returns how many of the nodes are in a data center, and in how many racks.
func (r *tokenRing) within(nodes []*Node, datacenter string) (count, racks int) {
	var seen []string
	for _, n := range nodes {
		if n.Datacenter != datacenter {
			continue
		}
		count++
		if !slices.Contains(seen, n.Rack) {
			seen = append(seen, n.Rack)
		}
	}
	return count, len(seen)
}

// checkRacks checks the second half of invariant 4 for one range.
func (p *Placement) checkRacks(natural []NodeID) {
	if p.replication.Class != NetworkTopology {
		return
	}
	r := p.topology.reads
	var replicas []*Node
	for _, id := range natural {
		replicas = append(replicas, p.topology.Node(id))
	}
	for _, f := range p.replication.Datacenters {
		_, all := r.within(r.members, f.Datacenter)
		count, racks := r.within(replicas, f.Datacenter)
		invariant.Check(racks == min(count, all), "ring: replicas share a rack although another one has none")
	}
}

// checkRanges checks that pieces cover r, in token order and without gaps.
func checkRanges(r Range, pieces []RangeReplicas) {
	at := r.Start
	for _, piece := range pieces {
		invariant.Check(piece.Range.Start == at && !piece.Range.Wraps(),
			"ring: a piece of a range does not follow the last")
		at = piece.Range.End
	}
	invariant.Check(at == r.End, "ring: the pieces do not reach the end of the range")
}

// checkGains checks invariant 6.
func checkGains(gains []Gain) {
	end := map[NodeID]Token{}
	for i := range gains {
		g := &gains[i]
		invariant.Check(!g.Range.Wraps(), "ring: a gained range wraps")
		invariant.Check(!slices.Contains(g.Sources, g.Node), "ring: a node streams a range from itself")
		invariant.Check(g.From == 0 || slices.Contains(g.Sources, g.From),
			"ring: the node that loses a range is no source")
		last, more := end[g.Node]
		invariant.Check(!more || last != MinToken && last <= g.Range.Start, "ring: a node gains a token twice")
		end[g.Node] = g.Range.End
	}
}

// checkNew checks invariant 7.
func (t *Topology) checkNew(tokens []Token, count int) {
	invariant.Check(len(tokens) == count && ascending(tokens), "ring: a joining node has a token twice")
	for _, tok := range tokens {
		_, used := slices.BinarySearch(t.bounds, tok)
		invariant.Check(!used && tok != MinToken, "ring: a joining node has the token of another")
	}
}

// check checks that the ownership that the search has counted step by step adds up: tokens are unique, no node owns
// more than the ring, and the nodes own it at most once for each replica. Sums of shares differ by rounding.
func (l *layout) check() {
	const rounding = 1e-6
	invariant.Check(ascending(l.tokens) && len(l.tokens) == len(l.owners), "ring: the layout has a token twice")
	for k := range l.factor {
		sum := 0.0
		for i := range l.racks {
			share := l.owned[i*l.factor+k]
			invariant.Check(share > -rounding && share < 1+rounding,
				"ring: a node owns more than the ring, or less than nothing")
			sum += share
		}
		invariant.Check(sum < float64(k+1)+rounding, "ring: the nodes own more than the ring")
	}
}

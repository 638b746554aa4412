package ring

import (
	"slices"

	"cqld/internal/invariant"
)

// ReplicaSet contains the nodes that hold one range, in the strategy's order. Natural replicas count for reads now.
// Pending replicas gain or lose the range and must receive writes, too.
type ReplicaSet struct {
	Natural []NodeID
	Pending []NodeID
	// Others are the replicas before and after the operations in progress, if they differ from the natural ones. A
	// write must meet its level among each of them, too, so that every reader reads it, whether or not it knows of
	// the change. They include dead nodes whose ranges an operation moves.
	Others [][]NodeID
	// Before are the replicas before those operations that are Switching, if they differ from the natural ones. Until
	// the operation ends, writes that readers in the first phase have read may be on these only.
	Before []NodeID
}

// Contains reports whether id is a natural or pending replica.
func (s ReplicaSet) Contains(id NodeID) bool {
	return slices.Contains(s.Natural, id) || slices.Contains(s.Pending, id)
}

// Among returns the natural replicas that are among the nodes.
func (s ReplicaSet) Among(nodes []NodeID) (some []NodeID) {
	for _, id := range s.Natural {
		if slices.Contains(nodes, id) {
			some = append(some, id)
		}
	}
	return some
}

// Involves reports whether id is a replica at any stage of the operations in progress.
func (s ReplicaSet) Involves(id NodeID) bool {
	return s.Contains(id) || slices.Contains(s.Before, id) ||
		slices.ContainsFunc(s.Others, func(others []NodeID) bool { return slices.Contains(others, id) })
}

// join adds the replicas at another stage of the operations of t, and reports whether they differ.
func (s *ReplicaSet) join(t *Topology, others []NodeID) (differ bool) {
	// The replicas are compared as sets, because their order does not matter to a write.
	same := len(others) == len(s.Natural)
	for _, id := range others {
		same = same && slices.Contains(s.Natural, id)
		// A dead node stays in Others, whose quorum it counts for, but is sent nothing.
		if !s.Contains(id) && !t.Gone(id) {
			s.Pending = append(s.Pending, id)
		}
	}
	if !same {
		s.Others = append(s.Others, others)
	}
	return !same
}

// Placement contains the replica set of every range of one topology under one replication.
type Placement struct {
	topology    *Topology
	replication Replication
	sets        []ReplicaSet // by the index in topology.bounds of the range's end
}

// newPlacement computes the replica sets at each bound, and what operations in progress add to them.
func newPlacement(t *Topology, r Replication) *Placement {
	p := &Placement{topology: t, replication: r, sets: make([]ReplicaSet, len(t.bounds))}
	for i, tok := range t.bounds {
		// Operations that are Switching are complete in reads, so Natural are the replicas after them.
		p.sets[i] = ReplicaSet{Natural: t.reads.replicas(r, tok)}
		if len(t.operations) == 0 {
			continue
		}
		base := t.base.replicas(r, tok)
		// base differs from reads only by operations that are Switching: these are the replicas from which readers in
		// the first phase read.
		if p.sets[i].join(t, base) {
			p.sets[i].Before = base
		}
		// final differs from reads only by operations that are Streaming: their new replicas receive writes from now
		// on.
		p.sets[i].join(t, t.final.replicas(r, tok))
	}
	p.check()
	return p
}

// Topology returns the topology to which this placement belongs.
func (p *Placement) Topology() *Topology { return p.topology }

// Replication returns the replication of this placement.
func (p *Placement) Replication() Replication { return p.replication }

// Replicas returns the replica set of tok. It is empty if no node owns tokens.
func (p *Placement) Replicas(tok Token) ReplicaSet {
	if len(p.sets) == 0 {
		return ReplicaSet{}
	}
	return p.sets[positionIn(p.topology.bounds, tok)]
}

// RangeReplicas is a range and the replicas that hold all of it.
type RangeReplicas struct {
	Range    Range
	Replicas ReplicaSet
}

// Ranges splits r at the ring's tokens into non-wrapping ranges in token order, each with its replicas. r must not
// wrap.
func (p *Placement) Ranges(r Range) []RangeReplicas {
	invariant.Check(!r.Wraps(), "ring: a range that wraps is divided")
	t := p.topology
	var out []RangeReplicas
	if len(t.bounds) == 0 {
		return nil
	}
	// Bounds up to at are skipped. A linear search is enough: callers mostly want the whole ring.
	at := r.Start
	for i, tok := range t.bounds {
		if tok <= at {
			continue
		}
		if r.End != MinToken && tok >= r.End {
			break
		}
		out = append(out, RangeReplicas{Range{at, tok}, p.sets[i]})
		at = tok
	}
	// The last piece ends at r.End, which need not be a bound. Its replicas belong to the next bound, or to the first
	// one after the end of the ring.
	last := positionIn(t.bounds, r.End)
	if r.End == MinToken {
		last = 0
	}
	if at != r.End || len(out) == 0 {
		out = append(out, RangeReplicas{Range{at, r.End}, p.sets[last]})
	}
	if invariant.Enabled {
		checkRanges(r, out)
	}
	return out
}

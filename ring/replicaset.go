package ring

import "slices"

// ReplicaSet is the nodes that hold one range, in the strategy's order: Natural ones count now,
// Pending ones are gaining or losing the range and must get writes too.
type ReplicaSet struct {
	Natural []NodeID
	Pending []NodeID
	// Others are the replicas before and after the operations under way, where they are not the natural
	// ones: a write counts only when its level is met among each of them, too, so that every reader
	// meets it, whether it has heard of the change or not. Dead nodes that an operation takes the
	// ranges of are among them.
	Others [][]NodeID
	// Before are the replicas before those operations that are Switching, where they are not the natural
	// ones: what a reader of the first phase has seen may be on these alone until the operation ends.
	Before []NodeID
}

// Contains says whether id is a natural or pending replica.
func (s ReplicaSet) Contains(id NodeID) bool {
	return slices.Contains(s.Natural, id) || slices.Contains(s.Pending, id)
}

// join adds the replicas at another stage of the operations of t, and says whether they are others.
func (s *ReplicaSet) join(t *Topology, others []NodeID) (differ bool) {
	same := len(others) == len(s.Natural)
	for _, id := range others {
		same = same && slices.Contains(s.Natural, id)
		if !s.Contains(id) && !t.gone(id) {
			s.Pending = append(s.Pending, id)
		}
	}
	if !same {
		s.Others = append(s.Others, others)
	}
	return !same
}

// Placement is the replica set of every range of one topology under one replication.
type Placement struct {
	topology    *Topology
	replication Replication
	sets        []ReplicaSet // by index in topology.bounds of the range's end
}

func newPlacement(t *Topology, r Replication) *Placement {
	p := &Placement{topology: t, replication: r, sets: make([]ReplicaSet, len(t.bounds))}
	for i, tok := range t.bounds {
		p.sets[i] = ReplicaSet{Natural: t.reads.replicas(r, tok)}
		if len(t.operations) == 0 {
			continue
		}
		base := t.base.replicas(r, tok)
		if p.sets[i].join(t, base) {
			p.sets[i].Before = base
		}
		p.sets[i].join(t, t.final.replicas(r, tok))
	}
	return p
}

// Topology is the topology this placement belongs to.
func (p *Placement) Topology() *Topology { return p.topology }

// Replication is how it replicates.
func (p *Placement) Replication() Replication { return p.replication }

// Replicas is the replica set of tok. It is empty when no node owns tokens.
func (p *Placement) Replicas(tok Token) ReplicaSet {
	if len(p.sets) == 0 {
		return ReplicaSet{}
	}
	return p.sets[positionIn(p.topology.bounds, tok)]
}

// RangeReplicas is a range and who holds all of it.
type RangeReplicas struct {
	Range    Range
	Replicas ReplicaSet
}

// Ranges splits r at the ring's tokens: non-wrapping pieces in token order, each with its replicas.
// r itself must not wrap.
func (p *Placement) Ranges(r Range) []RangeReplicas {
	t := p.topology
	var out []RangeReplicas
	if len(t.bounds) == 0 {
		return nil
	}
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
	last := positionIn(t.bounds, r.End)
	if r.End == MinToken {
		last = 0
	}
	if at != r.End || len(out) == 0 {
		out = append(out, RangeReplicas{Range{at, r.End}, p.sets[last]})
	}
	return out
}

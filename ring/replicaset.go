package ring

import "slices"

// ReplicaSet is the nodes that hold one range, in the strategy's order: Natural ones count now,
// Pending ones are gaining the range and must get writes too.
type ReplicaSet struct {
	Natural []NodeID
	Pending []NodeID
}

// Contains says whether id is a natural or pending replica.
func (s ReplicaSet) Contains(id NodeID) bool {
	return slices.Contains(s.Natural, id) || slices.Contains(s.Pending, id)
}

// Placement is the replica set of every range of one topology under one replication.
type Placement struct {
	topology    *Topology
	replication Replication
	sets        []ReplicaSet // by index of the range's end token
}

func newPlacement(t *Topology, r Replication) *Placement {
	p := &Placement{topology: t, replication: r, sets: make([]ReplicaSet, len(t.tokens))}
	for i := range t.tokens {
		p.sets[i] = ReplicaSet{Natural: r.replicas(t, i)}
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
	return p.sets[p.topology.position(tok)]
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
	if len(t.tokens) == 0 {
		return nil
	}
	at := r.Start
	for i, tok := range t.tokens {
		if tok <= at {
			continue
		}
		if r.End != MinToken && tok >= r.End {
			break
		}
		out = append(out, RangeReplicas{Range{at, tok}, p.sets[i]})
		at = tok
	}
	last := t.position(r.End)
	if r.End == MinToken {
		last = 0
	}
	if at != r.End || len(out) == 0 {
		out = append(out, RangeReplicas{Range{at, r.End}, p.sets[last]})
	}
	return out
}

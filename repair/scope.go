package repair

import (
	"slices"

	"cqld/ring"
	"cqld/schema"
)

// Scope restricts a repair to some of the replicas of each range: to the nodes of data centers, or to single nodes. The
// zero value means all replicas.
//
// A restricted repair reads, compares and writes the replicas in its scope, and sends nothing to others. It proves
// nothing about the others, so it has no effect that requires all replicas: it sends no notice, so that tombstones may
// not be purged and losses by corrupt files stay marked; it purges no Paxos state, and raises no low bound.
type Scope struct {
	// A replica is in the scope if its data center or its id is listed.
	Datacenters []string
	Nodes       []ring.NodeID
}

// Restricted reports whether the scope may exclude replicas.
func (s *Scope) Restricted() bool { return len(s.Datacenters) > 0 || len(s.Nodes) > 0 }

// Of returns the replicas in the scope.
func (s *Scope) Of(t *ring.Topology, replicas []ring.NodeID) []ring.NodeID {
	// The slice of the placement is returned as it is: callers must not modify it.
	if !s.Restricted() {
		return replicas
	}
	var in []ring.NodeID
	for _, id := range replicas {
		n := t.Node(id)
		if n != nil && slices.Contains(s.Datacenters, n.Datacenter) || slices.Contains(s.Nodes, id) {
			in = append(in, id)
		}
	}
	return in
}

// comparable reports whether there is anything to compare. Repairs of all replicas have ranges with one replica as
// well, because they purge its Paxos state and report to it.
func (s *Scope) comparable(t *ring.Topology, replicas []ring.NodeID) bool {
	return !s.Restricted() || len(s.Of(t, replicas)) > 1
}

// pieces divides ranges into those with one replica set each that a repair of the table covers.
func pieces(t *ring.Topology, table *schema.Table, ranges []ring.Range, scope *Scope) (out []ring.Range) {
	placement := t.Placement(table.Replication)
	for _, tokens := range ranges {
		for _, piece := range placement.Ranges(tokens) {
			// Ranges with one replica in a restricted scope are not counted, so that the progress of the job reaches
			// its end.
			if scope.comparable(t, piece.Replicas.Natural) {
				out = append(out, halves(piece.Range)...)
			}
		}
	}
	return out
}

// halves returns r, or two halves when r is the whole ring: the range of a tree must not wrap.
func halves(r ring.Range) []ring.Range {
	if r.Start == r.End {
		return []ring.Range{{Start: r.Start, End: 0}, {Start: 0, End: r.End}}
	}
	return []ring.Range{r}
}

package search

import (
	"slices"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/storage/index"
	"cqld/watermark"
)

// piece is a range of the ring with one replica set. Pieces are in token order and do not overlap. With 3 nodes of 16
// tokens each, there are about 48 of them.
type piece struct {
	tokens   ring.Range
	replicas ring.ReplicaSet
	set      int // in searchOp.sets, once the piece is in the window
}

// replicaSet is the replicas of some pieces.
type replicaSet struct {
	// Pieces with equal readers share one entry.
	readers string // watermark.AppendReaders
	nodes   []*watermark.Node[index.Candidate]
}

// rest returns the tokens of the request that are after its position.
func (s *rowSequence) rest() ring.Range {
	if s.req.Key.Bytes != nil {
		// A range excludes its start: this one contains the token of the key only.
		return ring.Range{Start: s.req.Key.Token - 1, End: s.req.Key.Token}
	}
	rest := s.req.Tokens
	if key, _, _, ok := index.ParsePlace(s.req.From); ok && s.req.Order == ByToken && key.Token > rest.Start {
		rest.Start = key.Token - 1 // other keys may have the same token
	}
	return rest
}

// Replan implements watermark.Sequence. The search continues after the pieces that were searched completely. It follows
// a change of the ring while the search runs. Rows that are in the result stay there.
func (s *rowSequence) Replan() error {
	if len(s.pieces) == 0 {
		return s.divide(s.rest())
	}
	return s.divide(ring.Range{Start: s.pieces[0].tokens.Start, End: s.pieces[len(s.pieces)-1].tokens.End})
}

// divide divides the rest of the ring by the present topology, and begins the first window.
func (s *rowSequence) divide(rest ring.Range) error {
	s.m.NewPlan()
	s.pieces, s.window = s.pieces[:0], 0
	replication := s.req.Table.Replication
	if replication.Class == ring.Local {
		s.pieces = append(s.pieces, piece{tokens: rest,
			replicas: ring.ReplicaSet{Natural: []ring.NodeID{s.self}}})
	} else {
		var last, readers []byte
		for _, r := range s.m.Topology.Placement(replication).Ranges(rest) {
			readers = watermark.AppendReaders(readers[:0], &r.Replicas)
			// Adjacent ranges with the same replicas are one piece: with virtual nodes there are many.
			if n := len(s.pieces); n > 0 && string(last) == string(readers) {
				s.pieces[n-1].tokens.End = r.Range.End
				continue
			}
			s.pieces = append(s.pieces, piece{tokens: r.Range, replicas: r.Replicas})
			last = append(last[:0], readers...)
		}
	}
	return s.beginWindow(s.width())
}

// width returns how many pieces the next window has: as many as the rows found so far make necessary, and at most twice
// as many as were searched before. For example, a search for 100 rows that has found 10 in 5 pieces expects 2 per
// piece, and would take 46 more; twice the 5 pieces is 10, which is the bound.
func (s *rowSequence) width() int {
	// The first row in another order may be anywhere on the ring.
	if s.req.Order != ByToken {
		return len(s.pieces)
	}
	// If no row was found so far, only the doubling below bounds the window.
	wanted := len(s.pieces)
	if s.out.rows > 0 {
		perPiece := float64(s.out.rows) / float64(max(s.searched, 1))
		wanted = int(float64(s.limit-s.out.rows)/perPiece) + 1
	}
	return max(1, min(wanted, 2*s.searched, len(s.pieces), s.limits.Pieces))
}

// nextWindow begins the window after the present one.
func (s *rowSequence) nextWindow() error {
	s.searched += s.window
	s.pieces = slices.Delete(s.pieces, 0, s.window)
	// A range has moved since the search was planned, so the rest is divided again.
	if s.m.Present.Moved() > s.m.Topology.Epoch() {
		return s.Replan()
	}
	s.m.NextPlan() // answers for the last window are not needed
	return s.beginWindow(s.width())
}

// beginWindow derives the plan of the next width pieces. It fails with Unavailable if too few nodes are alive.
func (s *rowSequence) beginWindow(width int) error {
	s.window, s.covered, s.decisive = width, false, true
	s.sets = nil
	var readers []byte
	for i := range s.pieces[:width] {
		p := &s.pieces[i]
		readers = watermark.AppendReaders(readers[:0], &p.replicas)
		p.set = slices.IndexFunc(s.sets, func(s replicaSet) bool { return s.readers == string(readers) })
		if p.set < 0 {
			p.set = len(s.sets)
			members := s.m.Plan.Add(p.replicas)
			s.decisive = s.decisive && members.Decisive
			s.sets = append(s.sets, replicaSet{readers: string(readers), nodes: members.Nodes})
		}
	}
	return s.m.Plan.Complete()
}

// MayRecover implements watermark.Sequence. It reports whether a node has not built the index. If the index was just
// created, the node may soon have built it.
func (s *rowSequence) MayRecover() bool {
	return slices.ContainsFunc(s.m.Plan.Nodes(), func(n *watermark.Node[index.Candidate]) bool {
		return n.Failed() && coordinator.ReasonOf(n.Err) == coordinator.FailureIndexNotAvailable
	})
}

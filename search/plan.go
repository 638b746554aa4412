package search

import (
	"slices"

	"cqld/coordinator"
	"cqld/coordinator/quorum"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/storage/index"
)

// piece is a range of the ring with one replica set.
type piece struct {
	tokens   ring.Range
	replicas ring.ReplicaSet
	set      int // in searchOp.sets, once the piece is in the window
}

// replicaSet is the replicas of some pieces, and what the level requires of them.
type replicaSet struct {
	readers string // appendReaders
	quotas  []quota
	nodes   []*node
}

// quota is a set of nodes of which need must reach a position before the watermark does.
type quota struct {
	need  int
	nodes []*node
}

// rest returns the tokens of the request that are behind its position.
func (op *searchOp) rest() ring.Range {
	if op.req.Key.Bytes != nil {
		return ring.Range{Start: op.req.Key.Token - 1, End: op.req.Key.Token}
	}
	rest := op.req.Tokens
	if key, _, _, ok := index.ParsePlace(op.req.From); ok && op.req.Order == ByToken && key.Token > rest.Start {
		rest.Start = key.Token - 1 // other keys may have the same token
	}
	return rest
}

// planLocked divides the rest of the ring by the present topology, and begins the first window.
func (op *searchOp) planLocked(rest ring.Range) error {
	op.plans++
	op.refused, op.topology = false, op.s.view.Topology()
	op.pieces, op.window = op.pieces[:0], 0
	replication := op.req.Table.Replication
	if replication.Class == ring.Local {
		op.pieces = append(op.pieces, piece{tokens: rest, replicas: ring.ReplicaSet{Natural: []ring.NodeID{op.s.view.Self()}}})
	} else {
		var last, readers []byte
		for _, r := range op.topology.Placement(replication).Ranges(rest) {
			readers = appendReaders(readers[:0], &r.Replicas)
			if n := len(op.pieces); n > 0 && string(last) == string(readers) {
				op.pieces[n-1].tokens.End = r.Range.End
				continue
			}
			op.pieces = append(op.pieces, piece{tokens: r.Range, replicas: r.Replicas})
			last = append(last[:0], readers...)
		}
	}
	return op.windowLocked(op.widthLocked())
}

// widthLocked returns how many pieces the next window has: as many as the rows found so far make necessary, and at most twice as many
// as were searched before.
func (op *searchOp) widthLocked() int {
	if op.req.Order != ByToken {
		return len(op.pieces)
	}
	wanted := len(op.pieces)
	if op.out.rows > 0 {
		perPiece := float64(op.out.rows) / float64(max(op.searched, 1))
		wanted = int(float64(op.limit-op.out.rows)/perPiece) + 1
	}
	return max(1, min(wanted, 2*op.searched, len(op.pieces), op.s.limits.Pieces))
}

// nextWindowLocked begins the window behind the present one.
func (op *searchOp) nextWindowLocked() error {
	op.searched += op.window
	op.pieces = slices.Delete(op.pieces, 0, op.window)
	if op.s.view.Topology().Moved() > op.topology.Epoch() {
		return op.planLocked(ring.Range{Start: op.pieces[0].tokens.Start, End: op.pieces[len(op.pieces)-1].tokens.End})
	}
	op.plans++ // answers for the last window are not needed
	return op.windowLocked(op.widthLocked())
}

// windowLocked derives the quotas and the nodes of the next width pieces. It fails with Unavailable if too few nodes are alive.
func (op *searchOp) windowLocked(width int) error {
	op.window, op.covered, op.decisive = width, false, true
	op.sets, op.nodes = nil, nil
	var readers []byte
	for i := range op.pieces[:width] {
		p := &op.pieces[i]
		readers = appendReaders(readers[:0], &p.replicas)
		p.set = slices.IndexFunc(op.sets, func(s replicaSet) bool { return s.readers == string(readers) })
		if p.set < 0 {
			p.set = len(op.sets)
			op.addSet(string(readers), p.replicas)
		}
	}
	for i := range op.sets {
		for k := range op.sets[i].quotas {
			q, alive := &op.sets[i].quotas[k], 0
			for _, n := range q.nodes {
				if n.state != nodeFailed {
					alive++
				}
			}
			if alive < q.need {
				op.s.c.Note(coordinator.EventUnavailable)
				return &coordinator.Unavailable{Consistency: op.req.Consistency, Required: q.need, Alive: alive}
			}
		}
	}
	coordinator.SortByProximity(op.s.c, op.topology, op.s.view.Self(), op.nodes, func(n *node) ring.NodeID { return n.id })
	return nil
}

// appendReaders appends bytes that are equal for replica sets that are read from the same nodes.
func appendReaders(dst []byte, set *ring.ReplicaSet) []byte {
	for _, nodes := range [...][]ring.NodeID{set.Natural, set.Before} {
		var backing [8]ring.NodeID
		sorted := append(backing[:0], nodes...)
		slices.Sort(sorted)
		dst = wire.AppendUvarint(dst, uint64(len(sorted)))
		for _, id := range sorted {
			dst = wire.AppendUint64(dst, uint64(id))
		}
	}
	return dst
}

// addSet adds what the level requires of one replica set, as for a read of one token. While the set's ranges move, the level must
// be met on both sides.
func (op *searchOp) addSet(readers string, set ring.ReplicaSet) {
	s, level, replication := op.s, op.req.Consistency, op.req.Table.Replication
	var y quorum.Tally
	y.Reset(level, replication, op.topology, s.view.Self(), s.localDC)
	if !s.unsafe.OneSide {
		y.JoinRead(set, level, replication)
	}
	members := slices.Clone(set.Natural)
	for _, id := range set.Before {
		if y.TwoSided() && !slices.Contains(members, id) {
			members = append(members, id)
		}
	}
	out := replicaSet{readers: readers}
	needed := 0
	for i := range y.Quotas() {
		covering := &y.Quotas()[i]
		q := quota{need: covering.Need}
		needed += q.need
		if s.unsafe.OneNode {
			q.need = min(q.need, 1)
		}
		for _, id := range members {
			if y.Covers(covering, id) {
				q.nodes = append(q.nodes, op.node(id))
			}
		}
		for _, n := range q.nodes {
			if !slices.Contains(out.nodes, n) {
				out.nodes = append(out.nodes, n)
			}
		}
		out.quotas = append(out.quotas, q)
	}
	op.decisive = op.decisive && needed == 1 && !y.TwoSided()
	op.sets = append(op.sets, out)
}

// node returns a node of the window and adds it if it is new.
func (op *searchOp) node(id ring.NodeID) *node {
	for _, n := range op.nodes {
		if n.id == id {
			return n
		}
	}
	n := &node{id: id, position: position{place: beforeAll}}
	if id != op.s.view.Self() && !op.s.view.Alive(id) {
		n.state, n.err = nodeFailed, coordinator.ErrNoReply
	}
	op.nodes = append(op.nodes, n)
	return n
}

// giveUpLocked is called when the nodes of the plan cannot move the watermark any more. If a node refused the plan or has not
// built the index, or the ring has moved since, it pauses before a new plan. Otherwise it ends the search, unlocks mu and returns true.
func (op *searchOp) giveUpLocked() (ended bool) {
	s := op.s
	outdated := op.refused || op.unbuiltLocked() || s.view.Topology().Moved() > op.topology.Epoch()
	if !outdated || !s.c.MayReplan(op.replans+1) {
		op.finishLocked(op.failureLocked())
		return true
	}
	op.pausing = true
	s.c.Note(coordinator.EventReplan)
	s.clock.After(coordinator.ReplanPause<<op.replans, op.replan)
	op.replans++
	return false
}

// unbuiltLocked reports whether a node has not built the index: it may do so soon, if the index was created just now.
func (op *searchOp) unbuiltLocked() bool {
	return slices.ContainsFunc(op.nodes, func(n *node) bool {
		return n.state == nodeFailed && coordinator.ReasonOf(n.err) == coordinator.FailureIndexNotAvailable
	})
}

// replan is the event of the end of a pause. The search continues from the watermark with the present topology.
func (op *searchOp) replan() {
	defer op.guarded()
	op.mu.Lock()
	op.pausing = false
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	rest := ring.Range{Start: op.pieces[0].tokens.Start, End: op.pieces[len(op.pieces)-1].tokens.End}
	if err := op.planLocked(rest); err != nil {
		op.finishLocked(err)
		return
	}
	op.mu.Unlock()
	op.advance()
}

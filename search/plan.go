package search

import (
	"slices"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/storage/index"
	"cqld/watermark"
)

// piece is a range of the ring with one replica set.
type piece struct {
	tokens   ring.Range
	replicas ring.ReplicaSet
	set      int // in searchOp.sets, once the piece is in the window
}

// replicaSet is the replicas of some pieces.
type replicaSet struct {
	readers string // watermark.AppendReaders
	nodes   []*watermark.Node[index.Candidate]
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
		op.pieces = append(op.pieces, piece{tokens: rest,
			replicas: ring.ReplicaSet{Natural: []ring.NodeID{op.s.view.Self()}}})
	} else {
		var last, readers []byte
		for _, r := range op.topology.Placement(replication).Ranges(rest) {
			readers = watermark.AppendReaders(readers[:0], &r.Replicas)
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

// widthLocked returns how many pieces the next window has: as many as the rows found so far make necessary, and at most
// twice as many as were searched before.
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

// windowLocked derives the plan of the next width pieces. It fails with Unavailable if too few nodes are alive.
func (op *searchOp) windowLocked(width int) error {
	op.window, op.covered, op.decisive = width, false, true
	op.sets = nil
	op.plan.Reset(watermark.Options{
		Coordinator: op.s.c, View: op.s.view, Topology: op.topology, LocalDatacenter: op.s.localDC, Table: op.req.Table,
		Consistency: op.req.Consistency, Reversed: op.req.Reversed,
		Unsafe: watermark.Unsafe{OneNode: op.s.unsafe.OneNode, OneSide: op.s.unsafe.OneSide},
	}, op.plan.Mark())
	var readers []byte
	for i := range op.pieces[:width] {
		p := &op.pieces[i]
		readers = watermark.AppendReaders(readers[:0], &p.replicas)
		p.set = slices.IndexFunc(op.sets, func(s replicaSet) bool { return s.readers == string(readers) })
		if p.set < 0 {
			p.set = len(op.sets)
			members := op.plan.Add(p.replicas)
			op.decisive = op.decisive && members.Decisive
			op.sets = append(op.sets, replicaSet{readers: string(readers), nodes: members.Nodes})
		}
	}
	return op.plan.Complete()
}

// giveUpLocked is called when the nodes of the plan cannot move the watermark any more. If a node refused the plan or
// has not built the index, or the ring has moved since, it pauses before a new plan. Otherwise it ends the search,
// unlocks mu and returns true.
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
	return slices.ContainsFunc(op.plan.Nodes(), func(n *watermark.Node[index.Candidate]) bool {
		return n.Failed() && coordinator.ReasonOf(n.Err) == coordinator.FailureIndexNotAvailable
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

package listing

import (
	"slices"

	"cqld/coordinator"
	"cqld/coordinator/quorum"
	"cqld/internal/wire"
	"cqld/ring"
)

// planLocked derives the quotas and the nodes from the present topology. It fails with Unavailable if too few nodes are alive.
func (op *orderedOp) planLocked() error {
	view := op.l.view
	op.plans++
	op.refused, op.topology = false, view.Topology()
	op.quotas, op.nodes = nil, nil
	replication := op.req.Table.Replication
	if replication.Class == ring.Local {
		op.addQuotas(ring.ReplicaSet{Natural: []ring.NodeID{view.Self()}})
	} else {
		known := map[string]bool{}
		var key []byte
		for _, r := range op.topology.Placement(replication).Ranges(ring.FullRange()) {
			if key = appendReaders(key[:0], &r.Replicas); !known[string(key)] {
				known[string(key)] = true
				op.addQuotas(r.Replicas)
			}
		}
	}
	for i := range op.quotas {
		q, alive := &op.quotas[i], 0
		for _, n := range q.nodes {
			if n.state != nodeFailed {
				alive++
			}
		}
		if alive < q.need {
			op.l.c.Note(coordinator.EventUnavailable)
			return &coordinator.Unavailable{Consistency: op.req.Consistency, Required: q.need, Alive: alive}
		}
	}
	coordinator.SortByProximity(op.l.c, op.topology, view.Self(), op.nodes, func(n *node) ring.NodeID { return n.id })
	return nil
}

// appendReaders appends bytes that are equal for replica sets that are read from the same nodes. A ring of 4 nodes has 64 ranges,
// and each listing goes through all of them.
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

// addQuotas adds what the level requires of one replica set, as for a read of one token. While the set's ranges move, the level
// must be met on both sides.
func (op *orderedOp) addQuotas(set ring.ReplicaSet) {
	l, level, replication := op.l, op.req.Consistency, op.req.Table.Replication
	var y quorum.Tally
	y.Reset(level, replication, op.topology, l.view.Self(), l.localDC)
	if !l.unsafe.OneSide {
		y.JoinRead(set, level, replication)
	}
	members := slices.Clone(set.Natural)
	for _, id := range set.Before {
		if y.TwoSided() && !slices.Contains(members, id) {
			members = append(members, id)
		}
	}
	for i := range y.Quotas() {
		covering := &y.Quotas()[i]
		q := quota{need: covering.Need}
		if l.unsafe.OneNode {
			q.need = min(q.need, 1)
		}
		for _, id := range members {
			if y.Covers(covering, id) {
				q.nodes = append(q.nodes, op.node(id))
			}
		}
		op.quotas = append(op.quotas, q)
	}
}

// node returns a node of the plan and adds it if it is new.
func (op *orderedOp) node(id ring.NodeID) *node {
	for _, n := range op.nodes {
		if n.id == id {
			return n
		}
	}
	n := &node{id: id, position: position{place: beforeAll}}
	if id != op.l.view.Self() && !op.l.view.Alive(id) {
		n.state, n.err = nodeFailed, coordinator.ErrNoReply
	}
	op.nodes = append(op.nodes, n)
	return n
}

// giveUpLocked is called when the nodes of the plan cannot move the watermark any more. If a node refused the plan or the ring has
// moved since, it pauses before a new plan. Otherwise it ends the listing, unlocks mu and returns true.
func (op *orderedOp) giveUpLocked() (ended bool) {
	l := op.l
	outdated := op.refused || l.view.Topology().Moved() > op.topology.Epoch()
	if !outdated || !l.c.MayReplan(op.plans) {
		op.endLocked()
		return true
	}
	op.pausing = true
	l.c.Note(coordinator.EventReplan)
	l.clock.After(coordinator.ReplanPause<<(op.plans-1), op.replan)
	return false
}

// replan is the event of the end of a pause. The listing continues from the watermark with the present topology.
func (op *orderedOp) replan() {
	defer op.guarded()
	op.mu.Lock()
	op.pausing = false
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	if err := op.planLocked(); err != nil {
		op.finishLocked(err)
		return
	}
	op.mu.Unlock()
	op.advance()
}

package listing

import (
	"cqld/coordinator"
	"cqld/ring"
	"cqld/watermark"
)

// planLocked derives the plan from the present topology. It fails with Unavailable if too few nodes are alive.
func (op *orderedOp) planLocked() error {
	view := op.l.view
	op.plans++
	op.refused, op.topology = false, view.Topology()
	op.plan.Reset(watermark.Options{
		Coordinator: op.l.c, View: view, Topology: op.topology, LocalDatacenter: op.l.localDC, Table: op.req.Table,
		Consistency: op.req.Consistency, Reversed: op.req.Reversed, Unsafe: op.l.unsafe,
	}, op.plan.Mark())
	replication := op.req.Table.Replication
	if replication.Class == ring.Local {
		op.plan.Add(ring.ReplicaSet{Natural: []ring.NodeID{view.Self()}})
		return op.plan.Complete()
	}
	known := map[string]bool{}
	var key []byte
	for _, r := range op.topology.Placement(replication).Ranges(ring.FullRange()) {
		if key = watermark.AppendReaders(key[:0], &r.Replicas); !known[string(key)] {
			known[string(key)] = true
			op.plan.Add(r.Replicas)
		}
	}
	return op.plan.Complete()
}

// giveUpLocked is called when the nodes of the plan cannot move the watermark any more. If a node refused the plan or
// the ring has moved since, it pauses before a new plan. Otherwise it ends the listing, unlocks mu and returns true.
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

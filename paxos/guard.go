package paxos

// guarded is deferred by the events of a round. If an event panics, guarded ends the round with an error and unlocks
// its mutex, which the events of other acceptors' answers need; the next round of the partition starts. Without a
// Guard, in the simulation, the panic continues.
func (op *round) guarded() {
	g := op.c.guard
	if g == nil {
		return
	}
	if p := recover(); p != nil {
		err := g.Caught("coordinator conditional change", p)
		g.Abandon(&op.mu, func() { op.abandonLocked(err) })
	}
}

// abandonLocked ends a round after an event has panicked. It unlocks mu.
func (op *round) abandonLocked(err error) {
	if op.left.Load() {
		op.mu.Unlock()
		return
	}
	if (op.phase == phaseAccepting || op.phase == phaseCommitting) && len(op.outcomes) == len(op.members) {
		op.own = append(op.own, doubtful{proposal: op.proposal, outcomes: op.outcomes}) // it may be decided
	}
	op.attempt++
	op.concludeLocked(nil, err)
}

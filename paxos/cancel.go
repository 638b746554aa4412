package paxos

import (
	"slices"

	"cqld/internal/env"
)

// watch makes the end of m's request take m out of its line, or of its round before anything is proposed. After that the
// round goes on: whether the change is made would not be known otherwise.
func (c *Proposer) watch(line string, m *member) {
	if m.req.Cancel == nil {
		return
	}
	m.req.Cancel.OnCancel(func() {
		if c.queues.withdraw(line, m) {
			m.done(false, nil, env.ErrCanceled)
			return
		}
		if round := m.round.Load(); round != nil {
			round.cancel(m)
		}
	})
}

// cancel answers a member whose change certainly is not made, and ends the round when no member is left in it.
func (op *round) cancel(m *member) {
	defer op.guarded()
	op.mu.Lock()
	i := slices.Index(op.members, m)
	if op.over || i < 0 || m.answered || op.phase != phaseIdle && op.phase != phasePreparing || op.inDoubt(i) != nil {
		op.mu.Unlock()
		return
	}
	m.answered = true
	op.over = !slices.ContainsFunc(op.members, func(m *member) bool { return !m.answered })
	over := op.over
	if over {
		op.stageLocked(StageNone)
		op.disarmLocked()
	}
	op.mu.Unlock()
	op.c.queues.answered(1)
	m.done(false, nil, env.ErrCanceled)
	if over {
		op.leave()
	}
}

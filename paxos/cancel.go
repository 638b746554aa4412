package paxos

import (
	"slices"

	"cqld/internal/env"
)

// watch removes m from its queue, or from its round before anything is proposed, when m's request is canceled. After a
// proposal, the round continues: otherwise the outcome of the change would be unknown.
func (c *Proposer) watch(partition string, m *member) {
	if m.req.Cancel == nil {
		return
	}
	m.req.Cancel.OnCancel(func() {
		if c.queues.withdraw(partition, m) {
			m.done(false, nil, env.ErrCanceled)
			return
		}
		if round := m.round.Load(); round != nil {
			round.cancel(m)
		}
	})
}

// cancel answers a member whose change is certainly not made, and ends the round if no member is left.
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
		op.turn.asked++ // a turn that is granted later is returned at once
	}
	op.mu.Unlock()
	op.c.queues.answered(1)
	m.done(false, nil, env.ErrCanceled)
	if over {
		op.leave()
	}
}

// unanswered returns the members that have not been answered.
func unanswered(members []*member) []*member {
	out := make([]*member, 0, len(members))
	for _, m := range members {
		if !m.answered {
			out = append(out, m)
		}
	}
	return out
}

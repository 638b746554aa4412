package paxos

import (
	"cqld/internal/env"
)

// watch removes m from its queue, or from its round before anything is proposed, when m's request is canceled. After a
// proposal, the round continues: otherwise the outcome of the change would be unknown. The callback may run at once, or
// in another goroutine.
func (c *Proposer) watch(partition string, m *member) {
	if m.req.Cancel == nil {
		return
	}
	m.req.Cancel.OnCancel(func() {
		// The member was still in the queue, so no request was sent for it.
		if c.queues.withdraw(partition, m) {
			m.done(false, nil, env.ErrCanceled)
			return
		}
		if round := m.round.Load(); round != nil {
			// A member that has left the queue may not have its round yet; the event that begins the round then finds
			// the request canceled (machine.begun).
			round.cancel(m)
		}
	})
}

package counters

import (
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/counters/shard"
	"cqld/internal/invariant"
	"cqld/schema"
)

// leader leads updates of counters. It is the shell of the queues: it locks the stripe of a queue, steps, checks the
// invariants, unlocks, and performs the effects.
type leader struct {
	c       *Counters
	seen    *shard.Windows
	stripes [64]stripe
}

// stripe contains the partitions of some tokens that have an update in progress.
type stripe struct {
	mu   sync.Mutex
	busy map[key]*queue // partitions without updates have no entry
}

// key identifies a partition.
type key struct {
	table schema.StorageID
	key   string
}

// ledUpdate is one update at its leader.
type ledUpdate struct {
	Update
	deadline time.Duration // monotonic
	size     int64         // reserved until it is answered
	done     func(error)   // nil after it was called
}

// newLeader returns a leader without updates.
func newLeader(c *Counters) *leader {
	// The leader may have counted an update that Windows no longer records, so the sender gets the error of a lost
	// answer.
	l := &leader{c: c, seen: shard.NewWindows(c.limits.Names, coordinator.ErrNoReply)}
	for i := range l.stripes {
		l.stripes[i].busy = map[key]*queue{}
	}
	return l
}

// Lead changes counters of a partition of which this node is a replica, on behalf of update's coordinator. It retains
// update.Mutation, which must not change from then on. done receives Unavailable, Overloaded, NotReplica or another
// ErrNotSent if certainly nothing was counted, WriteTimeout or WriteFailure with the acknowledgements of the replicas,
// or ReplicaFailure if this node failed.
func (c *Counters) Lead(update *Update, timeout time.Duration, done func(error)) {
	process := shard.Process{Node: update.ID.Node, Incarnation: update.ID.Incarnation}
	if done = c.leader.seen.Enter(process, update.ID.Sequence, done); done == nil {
		// A duplicate receives the outcome of the first one.
		return
	}
	if err := c.mayLead(update); err != nil {
		done(err)
		return
	}
	now := c.clock.Monotonic()
	u := &ledUpdate{Update: *update, deadline: now + timeout, size: coordinator.WriteSize(update.Mutation)}
	if err := c.c.Reserve(u.size); err != nil {
		done(err)
		return
	}
	u.done = done
	c.leader.arrive(u, now)
}

// mayLead returns an error if this node must not lead the update: it is not a replica, or too few others are alive.
func (c *Counters) mayLead(u *Update) error {
	t := c.view.Topology()
	table := c.view.Schema().TableByStorage(u.Mutation.Table)
	if table == nil {
		return &coordinator.UnknownTable{Table: u.Mutation.Table}
	}
	natural := false
	for _, n := range coordinator.ReplicasOf(c.view.Self(), t, table, u.Mutation.Key.Token).Natural {
		natural = natural || n == c.view.Self()
	}
	// A coordinator with an older ring may not know all replicas that must receive the sum.
	if !natural || u.Epoch < t.Moved() {
		return &coordinator.NotReplica{Epoch: t.Epoch()}
	}
	return c.c.Available(u.Mutation, u.Consistency)
}

// answer releases the memory of an update, and calls its callback. A panic of the callback must not end the group,
// because other updates wait for their answers.
func (u *ledUpdate) answer(c *Counters, err error) {
	defer c.guard.Recover("coordinator counter", nil)
	invariant.Check(u.done != nil, "counter: an update is answered twice") // 10
	done := u.done
	u.done = nil
	c.c.Release(u.size)
	done(err)
}

// arrive delivers the event of a new update.
func (l *leader) arrive(u *ledUpdate, now time.Duration) {
	s := &l.stripes[uint64(u.Mutation.Key.Token)%uint64(len(l.stripes))]
	var backing [queueEffects]queueEffect
	q, out := s.arrive(u, now, l.c.limits.Group, backing[:0])
	l.perform(q, out, u.blocks)
}

// passed delivers the event that the next group of a queue may begin.
func (l *leader) passed(q *queue) {
	defer l.c.guard.Recover("coordinator counter", func(err error) { l.fail(q, err) })
	var backing [queueEffects]queueEffect
	l.perform(q, q.stripe.deliver(q, &queueEvent{kind: queuePassed}, backing[:0]), false)
}

// due delivers the event of the timer of a queue.
func (l *leader) due(q *queue, number uint32) {
	defer l.c.guard.Recover("coordinator counter", func(err error) { l.fail(q, err) })
	ev := &queueEvent{kind: queueDue, number: number, now: l.c.clock.Monotonic(), limit: l.c.limits.Group}
	var backing [queueEffects]queueEffect
	l.perform(q, q.stripe.deliver(q, ev, backing[:0]), false)
}

// fail delivers the event that another event of a queue has panicked.
func (l *leader) fail(q *queue, err error) {
	l.perform(q, q.stripe.deliver(q, &queueEvent{kind: queueFailed, err: err}, nil), false)
}

// perform performs the effects of a queue without the lock. blocks means that the caller's goroutine may block on the
// disk.
func (l *leader) perform(q *queue, out []queueEffect, blocks bool) {
	for i := range out {
		e := &out[i]
		//exhaustive:enforce
		switch e.kind {
		case queueLead:
			l.lead(q, e.updates, blocks)
		case queueAnswer:
			for _, u := range e.updates {
				u.answer(l.c, e.err)
			}
		case queueSchedule:
			number := e.number
			l.c.clock.After(0, func() { l.due(q, number) })
		case queueForget: // step has removed the queue
		}
	}
}

// arrive is the critical section of an update: it finds the queue of its partition, or adds one.
func (s *stripe) arrive(u *ledUpdate, now time.Duration, limit int, out []queueEffect) (*queue, []queueEffect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.busy[key{u.Mutation.Table, string(u.Mutation.Key.Bytes)}]
	if q == nil {
		q = &queue{stripe: s, key: key{u.Mutation.Table, string(u.Mutation.Key.Bytes)}}
		s.busy[q.key] = q
	}
	return q, q.stepLocked(&queueEvent{kind: queueArrived, update: u, now: now, limit: limit}, out)
}

// deliver is the critical section of another event of a queue.
func (s *stripe) deliver(q *queue, ev *queueEvent, out []queueEffect) []queueEffect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return q.stepLocked(ev, out)
}

// stepLocked steps, and removes an idle queue from its stripe: the next update adds a new one.
func (q *queue) stepLocked(ev *queueEvent, out []queueEffect) []queueEffect {
	out = q.step(ev, out)
	for i := range out {
		if out[i].kind == queueForget {
			delete(q.stripe.busy, q.key)
		}
	}
	if ev.kind != queueFailed { // the state after a panic is unknown
		q.checkLocked()
	}
	return out
}

package counters

import (
	"errors"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/counters/shard"
	"cqld/internal/invariant"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
)

// leader leads updates of counters. Updates of one partition run one after the other, because each reads the shard that
// the previous one wrote. Updates that are queued meanwhile are led together, with one read and one sync.
type leader struct {
	c       *Counters
	seen    *shard.Windows
	stripes [64]stripe
}

// stripe contains the partitions of some tokens that have an update in progress.
type stripe struct {
	mu   sync.Mutex
	busy map[key]*queue
}

type key struct {
	table schema.StorageID
	key   string
}

// queue contains the waiting updates of a partition; guarded by its stripe.
type queue struct {
	stripe  *stripe
	key     key
	waiting []*ledUpdate
}

// ledUpdate is one update at its leader.
type ledUpdate struct {
	Update
	deadline time.Duration
	size     int64
	done     func(error) // nil after it was called
}

func newLeader(c *Counters) *leader {
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
		return
	}
	if err := c.mayLead(update); err != nil {
		done(err)
		return
	}
	u := &ledUpdate{Update: *update, deadline: c.clock.Monotonic() + timeout,
		size: coordinator.WriteSize(update.Mutation)}
	if err := c.c.Reserve(u.size); err != nil {
		done(err)
		return
	}
	u.done = done
	c.leader.enqueue(u)
}

// answer gives the memory of an update back, and calls its callback.
func (u *ledUpdate) answer(c *coordinator.Coordinator, err error) {
	invariant.Check(u.done != nil, "counter: an update is answered twice")
	done := u.done
	u.done = nil
	c.Release(u.size)
	done(err)
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
	if !natural || u.Epoch < t.Moved() {
		return &coordinator.NotReplica{Epoch: t.Epoch()}
	}
	return c.c.Available(u.Mutation, u.Consistency)
}

// enqueue appends the update to its partition's queue, and starts the queue if it was idle.
func (l *leader) enqueue(u *ledUpdate) {
	key := key{u.Mutation.Table, string(u.Mutation.Key.Bytes)}
	s := &l.stripes[uint64(u.Mutation.Key.Token)%uint64(len(l.stripes))]
	if q, idle := s.add(key, u); idle {
		l.next(q, u.blocks)
	}
}

// add appends an update to the queue of its partition, and reports whether no other update is led.
func (s *stripe) add(key key, u *ledUpdate) (q *queue, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q = s.busy[key]; q == nil {
		q, idle = &queue{stripe: s, key: key}, true
		s.busy[key] = q
	}
	q.waiting = append(q.waiting, u)
	return q, idle
}

// take removes the first updates of the queue that have the same level, at most limit.
func (q *queue) take(limit int) []*ledUpdate {
	q.stripe.mu.Lock()
	defer q.stripe.mu.Unlock()
	invariant.Check(q.stripe.busy[q.key] == q, "counter: a partition has two queues")
	invariant.Check(len(q.waiting) > 0, "counter: a group without updates is led")
	n := 1
	for n < len(q.waiting) && n < limit && q.waiting[n].Consistency == q.waiting[0].Consistency {
		n++
	}
	updates := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return updates
}

// ended removes the queue if no update is waiting, and reports whether any is.
func (q *queue) ended() (more bool) {
	q.stripe.mu.Lock()
	defer q.stripe.mu.Unlock()
	invariant.Check(q.stripe.busy[q.key] == q, "counter: a group of a partition ends twice")
	if len(q.waiting) == 0 {
		delete(q.stripe.busy, q.key)
	}
	return len(q.waiting) > 0
}

// next leads the first updates in the queue that have the same level; the queue is not empty. blocks means that the
// caller's goroutine may block on the disk.
func (l *leader) next(q *queue, blocks bool) {
	updates := q.take(l.c.limits.Group)
	g := &group{l: l, queue: q, updates: updates, blocks: blocks}
	defer g.guarded()
	now := l.c.clock.Monotonic()
	g.updates = nil
	for _, u := range updates {
		if u.deadline <= now { // its request has timed out
			u.answer(l.c.c, coordinator.ErrNoReply)
			continue
		}
		g.updates = append(g.updates, u)
		g.deadline = max(g.deadline, u.deadline)
		g.epoch = max(g.epoch, u.Epoch)
	}
	if len(g.updates) == 0 {
		l.onwards(q)
		return
	}
	g.trace = coordinator.TracesOf(g.updates, func(u *ledUpdate) coordinator.Trace { return u.Trace })
	g.begin()
}

// group contains updates of one partition that are led together.
type group struct {
	l        *leader
	queue    *queue
	updates  []*ledUpdate // guarded by mu as soon as the mutation is sent
	deadline time.Duration
	epoch    uint64
	change   shard.Change
	result   *row.Mutation
	durable  bool // result is on this node's disk
	trace    coordinator.Trace
	blocks   bool // the goroutine of the present event may block on the disk

	mu     sync.Mutex // events end the group after a panic while other ones are executed
	passed bool       // the next group was started; guarded by mu
}

// begin reads the shards that the updates change.
func (g *group) begin() {
	c, first := g.l.c, g.updates[0]
	for _, u := range g.updates {
		same := u.Mutation.Table == first.Mutation.Table && u.Mutation.Key.Compare(first.Mutation.Key) == 0
		invariant.Check(same && u.Consistency == first.Consistency,
			"counter: updates of different partitions or levels are led together")
		if err := g.change.Add(u.Mutation); err != nil {
			g.conclude(&coordinator.ReplicaFailure{Message: err.Error()})
			return
		}
	}
	g.change.Merge()
	g.read(g.change.Scan(g.updates[0].Mutation, c.clock.Now().Unix()))
}

func (g *group) read(rows *scan.Cursor) {
	c := g.l.c
	cmd := new(row.ReadCommand)
	if !rows.Next(cmd) {
		g.write()
		return
	}
	taken := func(page []byte, err error) {
		defer g.guarded()
		if err == nil && g.trace != nil {
			g.trace.Read(coordinator.ReadsOf(page, cmd.Now))
		}
		if err == nil {
			err = g.change.Take(page, rows)
		}
		if err != nil {
			g.conclude(err)
			return
		}
		g.read(rows)
	}
	self, timeout := c.self(g.trace), c.c.Remaining(g.deadline)
	if here, ok := self.(coordinator.Blocking); ok && g.blocks { // spares two changes of goroutines
		here.ReadHere(g.epoch, cmd, timeout, taken)
		return
	}
	g.blocks = false
	self.Read(g.epoch, cmd, timeout, taken)
}

// write makes the new sums durable on this node. No other replica may have them before: after a crash, the next sums
// are computed from the stored ones.
func (g *group) write() {
	c := g.l.c
	first := g.updates[0].Mutation
	g.result = g.change.Result(first.Table, first.Key, c.view.Self(), c.stamps.Next())
	c.self(g.trace).Apply(g.epoch, []*row.Mutation{g.result}, c.c.Remaining(g.deadline), func(err error) {
		defer g.guarded()
		g.durable = err == nil
		if err != nil {
			g.conclude(err)
			return
		}
		g.replicate()
	})
}

// replicate sends the new sums to the other replicas, while the next updates are led.
func (g *group) replicate() {
	invariant.Check(g.durable, "counter: a sum is sent before it is on the leader's disk") // invariant 2 of the package
	c := g.l.c
	level := g.updates[0].Consistency
	if g.trace == nil && c.c.OnlyHere(g.result, level, c.view.Topology()) {
		g.conclude(nil)
		return
	}
	req := &coordinator.WriteRequest{Mutations: []*row.Mutation{g.result}, Consistency: level,
		Type:    coordinator.WriteCounter,
		Timeout: c.c.Remaining(g.deadline), Applied: true, Trace: g.trace}
	c.c.Write(req, func(err error) {
		defer g.guarded()
		if errors.Is(err, coordinator.ErrNotSent) { // not sent to the other replicas, but counted here
			c.c.Note(coordinator.EventWriteTimeout)
			table := c.view.Schema().TableByStorage(g.result.Table)
			blockFor := 1
			if table != nil {
				blockFor = level.BlockFor(table.Replication, c.localDC)
			}
			err = &coordinator.WriteTimeout{Consistency: level, Received: 1, BlockFor: blockFor,
				Type: coordinator.WriteCounter}
		}
		g.answer(err)
	})
	g.pass()
}

// pass starts the next group of the partition, once. If that panics, guarded calls it again, because no other event
// would start the updates that wait in the queue.
func (g *group) pass() {
	if !g.setPassed(true) {
		return
	}
	started := false
	defer func() {
		if !started {
			g.setPassed(false)
		}
	}()
	g.l.onwards(g.queue)
	started = true
}

// setPassed changes passed, and reports whether it had the other value.
func (g *group) setPassed(passed bool) (changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed = g.passed != passed
	g.passed = passed
	return changed
}

// onwards continues with the updates that have arrived meanwhile, as a separate event: this one may run in storage's
// committer.
func (l *leader) onwards(q *queue) {
	if q.ended() {
		l.c.clock.After(0, func() { l.next(q, false) })
	}
}

// conclude answers if no other node takes part: after a failure on this node, or because it is the only replica.
func (g *group) conclude(err error) {
	g.answer(err)
	g.pass()
}

func (g *group) answer(err error) {
	g.mu.Lock()
	updates := g.updates
	g.updates = nil
	g.mu.Unlock()
	for _, u := range updates {
		u.answer(g.l.c.c, err)
	}
}

// guarded is deferred by the events of a group. A panic ends it with an error, and the next group of the partition
// starts.
func (g *group) guarded() {
	c := g.l.c
	if c.guard == nil {
		return
	}
	if p := recover(); p != nil {
		g.conclude(c.guard.Caught("coordinator counter", p))
	}
}

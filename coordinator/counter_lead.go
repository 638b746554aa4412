package coordinator

import (
	"errors"
	"sync"
	"time"

	"cqld/coordinator/counter"
	"cqld/coordinator/quorum"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// counterLeader leads updates of counters. Those of one partition go one after the other, because
// each reads the shard that the one before wrote; those that wait meanwhile go together, with one
// read and one sync.
type counterLeader struct {
	c       *Coordinator
	seen    *counter.Windows
	stripes [64]counterStripe
}

// counterStripe is the partitions of some tokens that have an update under way.
type counterStripe struct {
	mu   sync.Mutex
	busy map[counterKey]*counterQueue
}

type counterKey struct {
	table schema.StorageID
	key   string
}

// counterQueue is the updates of a partition that wait; guarded by its stripe.
type counterQueue struct {
	stripe  *counterStripe
	key     counterKey
	waiting []*ledUpdate
}

// ledUpdate is one update at its leader.
type ledUpdate struct {
	CounterUpdate
	deadline time.Duration
	size     int64
	done     func(error)
}

func newCounterLeader(c *Coordinator) *counterLeader {
	l := &counterLeader{c: c, seen: counter.NewWindows(c.limits.CounterNames, ErrNoReply)}
	for i := range l.stripes {
		l.stripes[i].busy = map[counterKey]*counterQueue{}
	}
	return l
}

// Lead changes counters of a partition that this node is a replica of, on behalf of update's
// coordinator. update.Mutation is kept; it must not change any more. done is told Unavailable,
// Overloaded, NotReplica or another ErrNotSent when certainly nothing was counted, WriteTimeout and
// WriteFailure with what the replicas did, and ReplicaFailure when this node failed.
func (c *Coordinator) Lead(update *CounterUpdate, timeout time.Duration, done func(error)) {
	if !c.unsafe.CounterNotIdempotent {
		life := counter.Life{Node: update.ID.Node, Incarnation: update.ID.Incarnation}
		if done = c.leader.seen.Enter(life, update.ID.Sequence, done); done == nil {
			return
		}
	}
	if err := c.mayLead(update); err != nil {
		done(err)
		return
	}
	u := &ledUpdate{CounterUpdate: *update, deadline: c.clock.Monotonic() + timeout, size: int64(update.Mutation.Size()) + writeOpBytes}
	if err := c.reserve(u.size); err != nil {
		done(err)
		return
	}
	u.done = func(err error) {
		c.giveBack(u.size)
		done(err)
	}
	c.leader.enqueue(u)
}

// mayLead says why this node must not lead the update: it is no replica, or too few others live.
func (c *Coordinator) mayLead(u *CounterUpdate) error {
	t := c.view.Topology()
	table := c.view.Schema().TableByStorage(u.Mutation.Table)
	if table == nil {
		return &UnknownTable{Table: u.Mutation.Table}
	}
	natural := false
	for _, n := range c.replicasOf(t, table, u.Mutation.Key.Token).Natural {
		natural = natural || n == c.view.Self()
	}
	if !natural || u.Epoch < t.Moved() {
		return &NotReplica{Epoch: t.Epoch()}
	}
	return c.available(u.Mutation, u.Consistency)
}

// available says whether enough replicas live for a write of m at level.
func (c *Coordinator) available(m *row.Mutation, level ring.Consistency) error {
	table := c.view.Schema().TableByStorage(m.Table)
	if table == nil {
		return &UnknownTable{Table: m.Table}
	}
	t := c.view.Topology()
	var y quorum.Tally
	y.Reset(level, table.Replication, t, c.view.Self(), c.localDC)
	set := c.replicasOf(t, table, m.Key.Token)
	y.Join(set)
	open := func(n ring.NodeID) {
		if n == c.view.Self() || c.view.Alive(n) {
			y.Opened(n)
		}
	}
	for _, n := range set.Natural {
		open(n)
	}
	for _, n := range set.Pending {
		open(n)
	}
	if q := y.Short(); q != nil && (level != ring.Any || c.hints == nil || len(set.Natural) == 0) {
		c.counts.unavailable.Add(1)
		return &Unavailable{Consistency: level, Required: q.Need, Alive: q.Open}
	}
	return nil
}

// enqueue appends the update to its partition's queue, and starts the queue when it was idle.
func (l *counterLeader) enqueue(u *ledUpdate) {
	key := counterKey{u.Mutation.Table, string(u.Mutation.Key.Bytes)}
	s := &l.stripes[uint64(u.Mutation.Key.Token)%uint64(len(l.stripes))]
	s.mu.Lock()
	q := s.busy[key]
	idle := q == nil
	if idle {
		q = &counterQueue{stripe: s, key: key}
		s.busy[key] = q
	}
	q.waiting = append(q.waiting, u)
	s.mu.Unlock()
	if idle {
		l.next(q)
	}
}

// next leads the updates that wait, as far as they want the same level; there is one at least.
func (l *counterLeader) next(q *counterQueue) {
	s := q.stripe
	s.mu.Lock()
	n := 1
	for n < len(q.waiting) && n < l.c.limits.CounterGroup && q.waiting[n].Consistency == q.waiting[0].Consistency {
		n++
	}
	updates := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	s.mu.Unlock()

	g := &counterGroup{l: l, queue: q, updates: updates}
	defer g.guarded()
	now := l.c.clock.Monotonic()
	g.updates = nil
	for _, u := range updates {
		if u.deadline <= now { // nobody waits for it any more
			u.done(ErrNoReply)
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
	g.trace = tracesOf(g.updates, func(u *ledUpdate) Trace { return u.Trace })
	g.begin()
}

// counterGroup is updates of one partition that are led together.
type counterGroup struct {
	l        *counterLeader
	queue    *counterQueue
	updates  []*ledUpdate
	deadline time.Duration
	epoch    uint64
	change   counter.Change
	result   *row.Mutation
	passed   bool // the next group may begin
	trace    Trace
}

// begin reads the shards that will grow.
func (g *counterGroup) begin() {
	c := g.l.c
	for _, u := range g.updates {
		if err := g.change.Add(u.Mutation); err != nil {
			g.conclude(&ReplicaFailure{Message: err.Error()})
			return
		}
	}
	g.change.Merge()
	g.read(g.change.Command(g.updates[0].Mutation, c.clock.Now().Unix()))
}

func (g *counterGroup) read(cmd *row.ReadCommand) {
	c := g.l.c
	if cmd == nil {
		g.write()
		return
	}
	c.replica(c.view.Self(), g.trace).Read(g.epoch, cmd, c.remaining(g.deadline), func(page []byte, err error) {
		defer g.guarded()
		if err == nil {
			cmd, err = g.change.Take(page, cmd)
		}
		if err != nil {
			g.conclude(err)
			return
		}
		g.read(cmd)
	})
}

// write makes the new sums durable here. No other replica may have them before: after a crash the
// next sums are made from what is here.
func (g *counterGroup) write() {
	c := g.l.c
	first := g.updates[0].Mutation
	g.result = g.change.Result(first.Table, first.Key, c.view.Self(), c.stamps.Next())
	c.replica(c.view.Self(), g.trace).Apply(g.epoch, []*row.Mutation{g.result}, c.remaining(g.deadline), func(err error) {
		defer g.guarded()
		if err != nil {
			g.conclude(err)
			return
		}
		g.replicate()
	})
}

// replicate gives the other replicas the new sums, while the next updates are led.
func (g *counterGroup) replicate() {
	c := g.l.c
	level := g.updates[0].Consistency
	req := &WriteRequest{Mutations: []*row.Mutation{g.result}, Consistency: level, Type: WriteCounter,
		Timeout: c.remaining(g.deadline), Applied: true, Trace: g.trace}
	c.Write(req, func(err error) {
		defer g.guarded()
		if errors.Is(err, ErrNotSent) { // to the others; it is counted here
			c.counts.writeTimeouts.Add(1)
			table := c.view.Schema().TableByStorage(g.result.Table)
			blockFor := 1
			if table != nil {
				blockFor = level.BlockFor(table.Replication, c.localDC)
			}
			err = &WriteTimeout{Consistency: level, Received: 1, BlockFor: blockFor, Type: WriteCounter}
		}
		g.answer(err)
	})
	g.pass()
}

// pass lets the next group of the partition begin, once.
func (g *counterGroup) pass() {
	if !g.passed {
		g.passed = true
		g.l.onwards(g.queue)
	}
}

// onwards goes on with what has come meanwhile, as an event of its own: this one may be the disk's.
func (l *counterLeader) onwards(q *counterQueue) {
	q.stripe.mu.Lock()
	more := len(q.waiting) > 0
	if !more {
		delete(q.stripe.busy, q.key)
	}
	q.stripe.mu.Unlock()
	if more {
		l.c.clock.After(0, func() { l.next(q) })
	}
}

// conclude answers after a failure on this node.
func (g *counterGroup) conclude(err error) {
	g.answer(err)
	g.pass()
}

func (g *counterGroup) answer(err error) {
	updates := g.updates
	g.updates = nil
	for _, u := range updates {
		u.done(err)
	}
}

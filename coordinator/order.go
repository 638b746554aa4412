package coordinator

import (
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"cqld/coordinator/quorum"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Writes of tables with write_ordering: the clock of the node, or of the client, that stamps a write may be
// behind that of one before, which would hide it. So a quorum of the replicas is asked for the newest timestamp
// of what the write changes, and the write gets one after that:
//
//	order ─▶ newest of a quorum ─▶ stamps, once and for all ─▶ Write or Batch, as without
//
// Who was acknowledged before, or read by anybody, is in that quorum. Two that ask at the same time are in no
// order but that of their stamps. Nothing is stamped anew that a replica may have applied: what was read could
// disappear under another write, and come up again. The clock of this node is not told: a client's timestamp in the
// future would move all tables of all nodes there, not only the rows that have it.

// Dated is a Replica that tells the newest timestamp (µs) of the slices, in any order, of one partition, with
// StaticCounts of its static row, too, and of all that deletes some of it. row.NoTimestamp: nothing is there.
type Dated interface {
	Newest(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(newest int64, err error))
}

// orderOp is a write whose timestamps are to be chosen.
type orderOp struct {
	c        *Coordinator
	req      WriteRequest
	write    func(*WriteRequest, func(error))
	deadline time.Duration
	size     int64

	mu     sync.Mutex
	done   func(error) // nil once called, or once the timestamps are chosen
	parts  []*orderPart
	left   int // parts without a quorum
	newest int64
	timer  env.Timer
}

// orderPart is what the write changes in one partition.
type orderPart struct {
	op       *orderOp
	cmd      *row.ReadCommand
	table    *schema.Table
	level    ring.Consistency
	tally    quorum.Tally
	epoch    uint64
	spares   []ring.NodeID // that live, and were not asked
	failures []NodeFailure
	refused  bool // one of them said that it is not a replica
	plans    int  // answers to earlier ones are of no interest
}

// order stamps the mutations of req after everything that is there, and then goes on with write. The errors are
// those of a write; whatever they are, nothing was sent.
func (c *Coordinator) order(req *WriteRequest, write func(*WriteRequest, func(error)), done func(error)) {
	op := &orderOp{c: c, req: *req, write: write, done: done, newest: row.NoTimestamp}
	op.req.Ordered = false
	level := ring.Quorum
	if req.Consistency.IsLocal() {
		level = ring.LocalQuorum
	}
	for _, m := range req.Mutations {
		table := c.view.Schema().TableByStorage(m.Table)
		if table == nil {
			done(&UnknownTable{Table: m.Table})
			return
		}
		if table.Options.WriteOrdering == "" {
			continue
		}
		cmd, some, err := m.Stamped(req.Stamp)
		if err != nil {
			done(err)
			return
		}
		if some {
			op.parts = append(op.parts, &orderPart{op: op, cmd: cmd, table: table, level: level})
		}
	}
	if len(op.parts) == 0 || c.unsafe.NoWriteOrder {
		write(&op.req, done)
		return
	}
	op.left, op.size = len(op.parts), sized(req.Mutations)+writeOpBytes
	if err := c.reserve(op.size); err != nil {
		done(err)
		return
	}
	op.begin()
}

// begin asks as many replicas of every part as must answer. Unavailable is told before anybody is asked.
func (op *orderOp) begin() {
	op.deadline = op.c.clock.Monotonic() + op.req.Timeout
	op.proceed()
}

func (op *orderOp) proceed() {
	defer op.guarded()
	c := op.c
	wait := c.remaining(op.deadline)
	asks := make([][]ring.NodeID, len(op.parts))
	for i, p := range op.parts {
		var err error
		if asks[i], err = p.plan(); err != nil {
			if c.waits(err, op.deadline) {
				c.clock.After(arrivalPause, op.proceed)
				return
			}
			op.mu.Lock()
			op.concludeLocked()(err)
			return
		}
		if d, ok := c.tables.Patience(p.table); ok && len(p.spares) > 0 {
			wait = min(wait, d)
		}
	}
	trace(op.req.Trace, c.view.Self(), "Asking for the newest timestamp")
	op.mu.Lock()
	op.timer = c.clock.After(wait, op.tick)
	op.mu.Unlock()
	for i, p := range op.parts {
		p.ask(asks[i], p.plans, p.epoch)
	}
}

// plan finds the live replicas and picks whom to ask first: as for a read. Caller holds mu or is alone.
func (p *orderPart) plan() (asks []ring.NodeID, err error) {
	c := p.op.c
	t, self := c.view.Topology(), c.view.Self()
	set := c.replicasOf(t, p.table, p.cmd.Key.Token)
	p.plans++
	p.epoch, p.refused, p.failures, p.spares = t.Epoch(), false, nil, nil
	p.tally.Reset(p.level, p.table.Replication, t, self, c.localDC)
	if !c.unsafe.ReadOneSide {
		p.tally.JoinRead(set, p.level, p.table.Replication)
	}
	var live []ring.NodeID
	for _, nodes := range [][]ring.NodeID{set.Natural, set.Before} {
		for _, node := range nodes {
			some, _ := p.tally.Counts(node)
			if some && !slices.Contains(live, node) && (node == self || c.view.Alive(node)) {
				p.tally.Opened(node)
				live = append(live, node)
			}
		}
	}
	if q := p.tally.Short(); q != nil {
		c.counts.unavailable.Add(1)
		return nil, &Unavailable{Consistency: p.level, Required: q.Need, Alive: q.Open}
	}
	SortByProximity(c, t, self, live, func(n ring.NodeID) ring.NodeID { return n })
	for _, node := range live {
		if p.tally.Ask(node) {
			asks = append(asks, node)
		} else {
			p.spares = append(p.spares, node)
		}
	}
	return asks, nil
}

// ask sends to nodes, this one last: it answers on the spot.
func (p *orderPart) ask(nodes []ring.NodeID, plan int, epoch uint64) {
	c := p.op.c
	timeout, sent, self := c.remaining(p.op.deadline), c.clock.Monotonic(), c.view.Self()
	for _, node := range slices.Backward(nodes) {
		done := func(newest int64, err error) {
			if node != self {
				now := c.clock.Monotonic()
				c.peers.Record(node, now-sent, now)
			}
			p.answer(plan, node, newest, err)
		}
		if dated, ok := c.replica(node, p.op.req.Trace).(Dated); ok {
			dated.Newest(epoch, p.cmd, timeout, done)
		} else {
			done(0, &ReplicaFailure{Message: "the replica tells no timestamps"})
		}
	}
}

// answer is the event of a replica's answer. When one fails, all others are asked.
func (p *orderPart) answer(plan int, node ring.NodeID, newest int64, err error) {
	op, c := p.op, p.op.c
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil || plan != p.plans {
		op.mu.Unlock()
		return
	}
	if err == nil {
		op.newest = max(op.newest, newest)
		if p.tally.Answered(node); p.tally.Satisfied() {
			p.plans++
			p.spares = nil
			op.left--
		}
		if op.left == 0 {
			op.stampLocked()
			return
		}
		op.mu.Unlock()
		return
	}
	var refusal *NotReplica
	p.tally.Failed(node)
	p.refused = p.refused || errors.As(err, &refusal)
	if !silent(err) {
		p.failures = append(p.failures, NodeFailure{Node: node, Reason: reasonOf(err)})
	}
	spares, epoch := p.spares, p.epoch
	p.spares = nil
	switch {
	case !p.tally.Hopeless(): // spares are counted
		op.mu.Unlock()
		p.ask(spares, plan, epoch)
	case (p.refused || c.outdated(p.epoch)) && p.plans < c.limits.PlansMax && !c.unsafe.NoReplan:
		op.mu.Unlock()
		c.counts.replans.Add(1)
		c.clock.After(replanPause<<(plan-1), func() { p.replan(plan) })
	default:
		op.concludeLocked()(p.failure())
	}
}

// replan asks again, with the topology of now: nothing was sent yet that would be lost.
func (p *orderPart) replan(plan int) {
	op := p.op
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil || plan != p.plans {
		op.mu.Unlock()
		return
	}
	asks, err := p.plan()
	if err != nil && op.c.waits(err, op.deadline) {
		plan = p.plans
		op.mu.Unlock()
		op.c.clock.After(arrivalPause, func() { p.replan(plan) })
		return
	}
	if err != nil {
		op.concludeLocked()(err)
		return
	}
	plan, epoch := p.plans, p.epoch
	op.mu.Unlock()
	p.ask(asks, plan, epoch)
}

// tick is the event of the timer: first it asks all who were not asked, then the time is over.
func (op *orderOp) tick() {
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	left := op.deadline - op.c.clock.Monotonic()
	if left <= 0 {
		i := slices.IndexFunc(op.parts, func(p *orderPart) bool { return !p.tally.Satisfied() })
		op.concludeLocked()(op.parts[i].failure())
		return
	}
	op.timer = op.c.clock.After(left, op.tick)
	var asks []func()
	for _, p := range op.parts {
		if spares, plan, epoch := p.spares, p.plans, p.epoch; len(spares) > 0 {
			p.spares = nil
			asks = append(asks, func() { p.ask(spares, plan, epoch) })
		}
	}
	op.mu.Unlock()
	for _, ask := range asks {
		ask()
	}
}

// failure is the error that the present counts mean, with mu held.
func (p *orderPart) failure() error {
	received, blockFor := p.tally.Totals()
	if len(p.failures) > 0 {
		return &WriteFailure{Consistency: p.level, Received: received, BlockFor: blockFor, Failures: p.failures, Type: p.op.req.Type}
	}
	p.op.c.counts.writeTimeouts.Add(1)
	return &WriteTimeout{Consistency: p.level, Received: received, BlockFor: blockFor, Type: p.op.req.Type}
}

// concludeLocked ends the asking; what is left is to call what it gives. It frees mu.
func (op *orderOp) concludeLocked() (done func(error)) {
	done, timer := op.done, op.timer
	op.done = nil
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	op.c.giveBack(op.size)
	return done
}

// stampLocked ends the asking and writes. It frees mu.
func (op *orderOp) stampLocked() {
	newest, done := op.newest, op.concludeLocked()
	op.c.handOver("coordinator ordered write", done, func(done func(error)) { op.writeAfter(newest, done) })
}

// writeAfter writes with timestamps after newest.
func (op *orderOp) writeAfter(newest int64, done func(error)) {
	if stamp := op.req.Stamp; newest >= stamp {
		op.c.counts.restamped.Add(1)
		to, moved := stampAfter(newest, stamp), make([]*row.Mutation, len(op.req.Mutations))
		for i, m := range op.req.Mutations {
			var err error
			if moved[i], err = m.Restamp(stamp, to); err != nil {
				done(err)
				return
			}
		}
		op.req.Mutations = moved
	}
	op.req.Timeout = op.c.remaining(op.deadline)
	op.write(&op.req, done)
}

// stampAfter is a timestamp after newest, and so is the one before it, with which a write deletes what it
// overwrites. Writers that found the same newest should not get the same: their cells would mix in a row. So
// it depends on the timestamp that the write would have had; of two writers, 1 in 64 pairs has one.
func stampAfter(newest, stamp int64) int64 {
	if newest > math.MaxInt64-stampSpread {
		return math.MaxInt64 // nothing is after it: ties are left
	}
	return newest + 2 + stamp&63*2
}

// stampSpread is more than a timestamp is moved beyond the newest, in µs: less than the time in which
// one write can follow the other.
const stampSpread = 130

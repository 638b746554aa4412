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

// Writes of tables with write_ordering. The clock of the node or client that generates a write's timestamp may be
// slower than the clock of an earlier write, which would then hide the later one. Therefore the coordinator asks a
// quorum of the replicas for the newest timestamp of the data that the write changes, and gives the write a later one:
//
//	order ─▶ newest of a quorum ─▶ timestamps, chosen once ─▶ Write or Batch, as without write_ordering
//
// 1. That quorum contains every write that was acknowledged before, or read by any client.
// 2. Concurrent writes are ordered only by their timestamps.
// 3. A mutation that a replica may have applied never gets another timestamp: data that was read could disappear under
//    another write, and reappear.
// 4. This node's clock is not advanced: a client's timestamp in the future would otherwise move all tables of all nodes
//    there, not only the rows that have it.

// Dated is a Replica that returns the newest timestamp (µs) of the slices, in any order, of one partition, including
// all deletions that cover them and, with StaticCounts, the static row. row.NoTimestamp means that there is no data.
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
	done   func(error) // nil after it was called, or after the timestamps were chosen
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
	spares   []ring.NodeID // live replicas that were not asked
	failures []NodeFailure
	refused  bool // a node responded that it is not a replica
	plans    int  // answers to earlier plans are ignored
}

// Order assigns timestamps after all stored ones to the mutations of req whose tables have write_ordering, and then
// calls write. If it fails, it calls done with the error of a write, and nothing was sent.
func (c *Coordinator) Order(req *WriteRequest, write func(*WriteRequest, func(error)), done func(error)) {
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
	if err := c.Reserve(op.size); err != nil {
		done(err)
		return
	}
	op.begin()
}

// begin asks as many replicas of every part as must answer. It returns Unavailable before it sends any request.
func (op *orderOp) begin() {
	op.deadline = op.c.clock.Monotonic() + op.req.Timeout
	op.proceed()
}

func (op *orderOp) proceed() {
	defer op.guarded()
	c := op.c
	wait := c.Remaining(op.deadline)
	requests := make([][]ring.NodeID, len(op.parts))
	for i, p := range op.parts {
		var err error
		if requests[i], err = p.plan(); err != nil {
			if c.MayArrive(err, op.deadline) {
				c.clock.After(ArrivalPause, op.proceed)
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
		p.ask(requests[i], p.plans, p.epoch)
	}
}

// plan determines the live replicas and chooses the first to ask, as for a read. The caller holds mu, or no other
// goroutine uses p.
func (p *orderPart) plan() (requests []ring.NodeID, err error) {
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
			requests = append(requests, node)
		} else {
			p.spares = append(p.spares, node)
		}
	}
	return requests, nil
}

// ask sends the request to nodes, this node last, because it may answer synchronously.
func (p *orderPart) ask(nodes []ring.NodeID, plan int, epoch uint64) {
	c := p.op.c
	timeout, sent, self := c.Remaining(p.op.deadline), c.clock.Monotonic(), c.view.Self()
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
			done(0, &ReplicaFailure{Message: "the replica does not support timestamp reads"})
		}
	}
}

// answer is the event of a replica's answer. If one fails, all others are asked.
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
		c.clock.After(ReplanPause<<(plan-1), func() { p.replan(plan) })
	default:
		op.concludeLocked()(p.failure())
	}
}

// replan asks again with the present topology: nothing has been sent that could be lost.
func (p *orderPart) replan(plan int) {
	op := p.op
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil || plan != p.plans {
		op.mu.Unlock()
		return
	}
	requests, err := p.plan()
	if err != nil && op.c.MayArrive(err, op.deadline) {
		plan = p.plans
		op.mu.Unlock()
		op.c.clock.After(ArrivalPause, func() { p.replan(plan) })
		return
	}
	if err != nil {
		op.concludeLocked()(err)
		return
	}
	plan, epoch := p.plans, p.epoch
	op.mu.Unlock()
	p.ask(requests, plan, epoch)
}

// tick is the event of the timer. The first one asks the remaining replicas; the last one is the deadline.
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
	var requests []func()
	for _, p := range op.parts {
		if spares, plan, epoch := p.spares, p.plans, p.epoch; len(spares) > 0 {
			p.spares = nil
			requests = append(requests, func() { p.ask(spares, plan, epoch) })
		}
	}
	op.mu.Unlock()
	for _, ask := range requests {
		ask()
	}
}

// failure returns the error for the present counts. The caller holds mu.
func (p *orderPart) failure() error {
	received, blockFor := p.tally.Totals()
	if len(p.failures) > 0 {
		return &WriteFailure{Consistency: p.level, Received: received, BlockFor: blockFor, Failures: p.failures,
			Type: p.op.req.Type}
	}
	p.op.c.counts.writeTimeouts.Add(1)
	return &WriteTimeout{Consistency: p.level, Received: received, BlockFor: blockFor, Type: p.op.req.Type}
}

// concludeLocked ends the operation and returns the function to call. It unlocks mu.
func (op *orderOp) concludeLocked() (done func(error)) {
	done, timer := op.done, op.timer
	op.done = nil
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	op.c.Release(op.size)
	return done
}

// stampLocked ends the requests for timestamps and writes. It unlocks mu.
func (op *orderOp) stampLocked() {
	newest, done := op.newest, op.concludeLocked()
	op.c.Continue("coordinator ordered write", done, func(done func(error)) { op.writeAfter(newest, done) })
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
	op.req.Timeout = op.c.Remaining(op.deadline)
	op.write(&op.req, done)
}

// stampAfter returns a timestamp after newest; the one before it, with which a write deletes the data it overwrites, is
// after newest, too. Writers that received the same newest should get different ones: otherwise their cells would mix
// in a row. Therefore it depends on the timestamp that the write would have had; of pairs of writers, 1 in 64 gets the
// same one.
func stampAfter(newest, stamp int64) int64 {
	if newest > math.MaxInt64-stampSpread {
		return math.MaxInt64 // no timestamp is later: ties remain
	}
	return newest + 2 + stamp&63*2
}

// stampSpread is the maximum distance of a new timestamp from the newest, in µs: shorter than the time in which one
// write can follow another.
const stampSpread = 130

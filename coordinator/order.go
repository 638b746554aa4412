package coordinator

import (
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

// orderOp is a write whose timestamps are to be chosen: the shell of an ordering. It locks, steps, unlocks, and
// performs the effects.
type orderOp struct {
	c     *Coordinator
	req   WriteRequest
	write func(*WriteRequest, func(error))
	size  int64

	mu       sync.Mutex
	ordering ordering    // its steps hold mu
	done     func(error) // nil after it was called, or after the timestamps were chosen
	timer    env.Timer
}

// ordering is the state machine of an orderOp.
//
//	begun ─ plan ─▶ ask as many replicas of every part as must answer
//	                  │ answered: enough of every part ─▶ write
//	                  │ answered: a failure ────────────▶ ask the others
//	                  │ answered: a refusal ────────────▶ pause ─ resumed ─▶ plan
//	                  └ ticked: others are asked, too; then the deadline ─▶ fail
type ordering struct {
	c        *Coordinator // for its view, limits, latencies and counters
	kind     WriteType
	self     ring.NodeID
	deadline time.Duration // monotonic
	parts    []*orderPart
	left     int   // parts without a quorum
	newest   int64 // of the answers
	over     bool  // no event has an effect
}

// orderPart is what the write changes in one partition.
type orderPart struct {
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

// orderEvent is an input of an ordering.
type orderEvent struct {
	kind   orderEventKind
	now    time.Duration // monotonic
	part   *orderPart    // orderAnswered, orderResumed; nil means that no part was planned
	plan   int           // of the effect that the event follows
	node   ring.NodeID   // orderAnswered
	sent   time.Duration // orderAnswered: when it was asked; monotonic
	newest int64         // orderAnswered
	err    error         // orderAnswered
}

type orderEventKind uint8

const (
	orderBegun    orderEventKind = iota
	orderAnswered                // a replica has answered, or failed
	orderResumed                 // a pause has ended
	orderTicked
)

// orderEffect is an output of an ordering.
type orderEffect struct {
	kind  orderEffectKind
	part  *orderPart    // orderAsk, orderPause
	nodes []ring.NodeID // orderAsk
	plan  int           // orderAsk, orderPause
	epoch uint64        // orderAsk
	after time.Duration // orderArm, orderPause
	err   error         // orderFail
}

type orderEffectKind uint8

const (
	orderAsk   orderEffectKind = iota // ask nodes for the newest timestamp of the part
	orderArm                          // set the timer
	orderPause                        // wait for newer metadata, or for a node's first heartbeat
	orderFail                         // answer the client with an error
	orderWrite                        // write with timestamps after newest
)

// Order assigns timestamps after all stored ones to the mutations of req whose tables have write_ordering, and then
// calls write. If it fails, it calls done with the error of a write, and nothing was sent.
func (c *Coordinator) Order(req *WriteRequest, write func(*WriteRequest, func(error)), done func(error)) {
	op := &orderOp{c: c, req: *req, write: write, done: done}
	o := &op.ordering
	o.c, o.kind, o.newest = c, req.Type, row.NoTimestamp
	// write calls Write with this request, which must not call Order a second time.
	op.req.Ordered = false
	level := ring.Quorum
	if req.Consistency.IsLocal() {
		// The timestamps are after all timestamps of the local data center, which is what a local level promises.
		level = ring.LocalQuorum
	}
	for _, m := range req.Mutations {
		table := c.view.Schema().TableByStorage(m.Table)
		if table == nil {
			done(&UnknownTable{Table: m.Table})
			return
		}
		if table.Options.WriteOrdering == "" {
			// The table has no write_ordering: its mutations keep their timestamps.
			continue
		}
		cmd, some, err := m.Stamped(req.Stamp)
		if err != nil {
			done(err)
			return
		}
		if some {
			o.parts = append(o.parts, &orderPart{cmd: cmd, table: table, level: level})
		}
	}
	if len(o.parts) == 0 {
		// All timestamps were set by clients, and stay.
		write(&op.req, done)
		return
	}
	o.left, op.size = len(o.parts), WriteSize(req.Mutations...)
	o.self, o.deadline = c.view.Self(), c.clock.Monotonic()+req.Timeout
	// The reservation is the last step, because after a panic only events release it. It is released when the write
	// begins, which makes its own.
	if err := c.Reserve(op.size); err != nil {
		done(err)
		return
	}
	op.deliver(&orderEvent{kind: orderBegun})
}

// deliver takes an event, and performs its effects.
func (op *orderOp) deliver(ev *orderEvent) {
	defer op.c.guard.Recover("coordinator ordered write", op.fail)
	ev.now = op.c.clock.Monotonic()
	if ev.kind == orderAnswered && ev.node != op.ordering.self {
		// Late answers count as well: otherwise a slow node would never be detected.
		op.c.peers.Record(ev.node, ev.now-ev.sent, ev.now)
	}
	for _, e := range op.step(ev) {
		switch e.kind {
		case orderAsk:
			op.ask(&e)
		case orderArm: // step has set the timer
			if ev.kind != orderTicked {
				trace(op.req.Trace, op.ordering.self, "Asking for the newest timestamp")
			}
		case orderPause:
			op.c.clock.After(e.after, func() {
				op.deliver(&orderEvent{kind: orderResumed, part: e.part, plan: e.plan})
			})
		case orderFail:
			op.fail(e.err)
		case orderWrite:
			if done := op.conclude(); done != nil {
				// The write may panic after it has called done.
				op.c.Continue("coordinator ordered write", done, op.writeAfter)
			}
		}
	}
}

// step is the critical section of an event.
func (op *orderOp) step(ev *orderEvent) []orderEffect {
	op.mu.Lock()
	defer op.mu.Unlock()
	out := op.ordering.step(ev, nil)
	op.ordering.checkInvariants()
	for i := range out {
		if out[i].kind == orderArm {
			// The previous timer has fired, or there was none.
			op.timer = op.c.clock.After(out[i].after, op.tick)
		}
	}
	return out
}

// tick delivers the event of a timer that has fired.
func (op *orderOp) tick() { op.deliver(&orderEvent{kind: orderTicked}) }

// conclude ends the operation and returns the callback of the client, or nil if the client was answered already. The
// machine ignores the events that follow.
func (op *orderOp) conclude() (done func(error)) {
	op.mu.Lock()
	done, timer := op.done, op.timer
	op.done, op.timer, op.ordering.over = nil, nil, true
	op.mu.Unlock()
	// Stop is called without the lock, because a timer callback that is running may wait for the lock.
	if timer != nil {
		timer.Stop()
	}
	if done != nil {
		// Only the call that has taken done gets here, so the reservation is released once.
		op.c.Release(op.size)
	}
	return done
}

// fail answers the client with an error unless the client was answered already. It is also called after a panic.
func (op *orderOp) fail(err error) {
	if done := op.conclude(); done != nil {
		done(err)
	}
}

// ask sends the request to nodes. This node comes last, because its answer may arrive synchronously.
func (op *orderOp) ask(e *orderEffect) {
	c, p, plan := op.c, e.part, e.plan
	timeout, sent := c.Remaining(op.ordering.deadline), c.clock.Monotonic()
	for _, node := range slices.Backward(e.nodes) {
		done := func(newest int64, err error) {
			op.deliver(&orderEvent{
				kind:   orderAnswered,
				part:   p,
				plan:   plan,
				node:   node,
				sent:   sent,
				newest: newest,
				err:    err,
			})
		}
		if dated, ok := c.replica(node, op.req.Trace).(Dated); ok {
			dated.Newest(e.epoch, p.cmd, timeout, done)
		} else {
			done(0, &ReplicaFailure{Message: "the replica does not support timestamp reads"})
		}
	}
}

// writeAfter writes with timestamps after the newest one. The machine is over, so no event changes it.
func (op *orderOp) writeAfter(done func(error)) {
	newest := op.ordering.newest
	// Usually the clock is ahead of all stored timestamps, and nothing changes.
	if stamp := op.req.Stamp; newest >= stamp {
		op.c.counts.restamped.Add(1)
		// The mutations are copied: the caller's must not change, because late hints may contain them.
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
	// The write gets the time that is left until the deadline of the request.
	op.req.Timeout = op.c.Remaining(op.ordering.deadline)
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
	// Distances are even, because each write uses two timestamps.
	return newest + 2 + stamp&63*2
}

// stampSpread is the maximum distance of a new timestamp from the newest, in µs: shorter than the time between an
// acknowledged write and the next one of the same client.
const stampSpread = 130

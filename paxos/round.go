package paxos

import (
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/paxos/ballot"
	"cqld/paxos/contention"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// CAS executes a conditional change of one partition. applied reports whether the condition held. page is the content
// on which the condition was evaluated; it is valid until done returns. Changes of one partition through one
// coordinator take effect one after the other; those that wait for a running round share the next one.
func (c *Proposer) CAS(req *CASRequest, done func(applied bool, page []byte, err error)) {
	table := c.view.Schema().TableByStorage(req.Command.Table)
	if table == nil {
		done(false, nil, &coordinator.UnknownTable{Table: req.Command.Table})
		return
	}
	// Checked before the request is counted, so that nothing needs to be undone.
	if req.Cancel.Err() != nil {
		done(false, nil, env.ErrCanceled)
		return
	}
	// Checked before queuing, because waiting cannot make a ring larger.
	if err := c.checkFactor(table, req); err != nil {
		done(false, nil, err)
		return
	}
	now := c.clock.Monotonic()
	m := &member{req: req, table: table, done: done, entered: now, deadline: now + req.Contention}
	partition := contention.Partition(req.Command.Table, req.Command.Key)
	first, ok := c.queues.add(partition, m, c.limits.InFlight)
	switch {
	case !ok:
		c.counts.overloaded.Add(1)
		done(false, nil, &coordinator.Overloaded{What: "too many conditional changes in flight"})
	// This request found no round of its partition, so it begins one.
	case first:
		r := c.newRound(partition, []*member{m})
		// watch is called after the round has the member and before the round begins, so that a cancellation always
		// finds the member.
		c.watch(partition, m)
		r.deliverBegun()
	default:
		c.watch(partition, m)
	}
}

// Read executes a serial read of one partition: it completes a proposal in progress, and returns the decided content.
// The command must not change until done is called.
func (c *Proposer) Read(req *coordinator.ReadRequest, done func(page []byte, err error)) {
	contention := req.Contention
	if contention == 0 {
		contention = contentionDefault
	}
	// A change without an Update: the round reads and decides nothing, or an empty proposal.
	c.CAS(&CASRequest{
		Command:     req.Command,
		Serial:      req.Consistency,
		Consistency: plainLevel(req.Consistency),
		Contention:  contention,
		Timeout:     req.Timeout,
		Trace:       req.Trace,
		Cancel:      req.Cancel,
	}, func(_ bool, page []byte, err error) { done(page, asRead(err)) })
}

// SettleProposals executes a round of a partition in which every replica votes. Afterwards, each proposal that any
// replica had accepted before is either decided and on all replicas, or void. All replicas must be alive.
func (c *Proposer) SettleProposals(table schema.StorageID, key row.PartitionKey, timeout time.Duration,
	done func(error)) {
	c.CAS(&CASRequest{
		// Only the votes matter, so the command reads as few rows as possible.
		Command:     &row.ReadCommand{Table: table, Key: key, Slices: []row.Slice{row.ExactRow([]byte{})}},
		Serial:      ring.All,
		Consistency: ring.All,
		Contention:  timeout,
		Timeout:     timeout,
	}, func(_ bool, _ []byte, err error) { done(asRead(err)) })
}

// guardWhere names rounds in errors and logs of panics.
const guardWhere = "coordinator conditional change"

// round is the shell of a machine. It is the only part of a round that has a lock: it takes an event, locks, steps,
// checks the invariants, sets the timer, unlocks, and performs the effects. A panic in a step therefore never leaves
// the lock.
type round struct {
	mu      sync.Mutex
	machine // guarded by mu
	timer   env.Timer
	timed   int // the number of the alarm for which timer is set

	failed atomic.Bool // an event or an effect has panicked
	passed atomic.Bool // the next round has been started
}

// newRound returns a round of members, the first of their queue.
func (c *Proposer) newRound(partition string, members []*member) *round {
	r := new(round)
	// Members refer to their round, for cancellations.
	r.c, r.owner, r.partition = c, r, partition
	r.enroll(members)
	return r
}

// deliverBegun starts the round. It must not be called with the lock of a queue.
func (r *round) deliverBegun() { r.deliver(&event{kind: eventBegun}) }

// deliver takes an event, and performs its effects in their order. Effects of other events may be performed meanwhile.
func (r *round) deliver(ev *event) {
	defer r.c.guard.Recover(guardWhere, r.fail)
	// The effects of most steps fit on the stack.
	var backing [stepEffects]effect
	out := r.apply(ev, backing[:0])
	for i := range out {
		// No lock is held: an effect may deliver further events in this goroutine.
		r.perform(&out[i])
	}
}

// apply is the critical section of an event. It returns the effects of the step, which are in out's memory if they fit.
func (r *round) apply(ev *event, out []effect) []effect {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The clock is read under the lock, so that the time of events never moves back.
	ev.now = r.c.clock.Monotonic()
	out = r.step(ev, out)
	if ev.kind != eventPanicked { // which may have found the invariant broken
		r.checkInvariants()
	}
	// The timer is set within the critical section: if the round panicked between the two, an alarm without a timer
	// would never fire.
	r.setTimer()
	return out
}

// setTimer sets or stops the timer if the step has changed the alarm. It is called with the lock, so that a later
// event cannot stop a timer that is not set yet; the clock does not call back before it returns.
func (r *round) setTimer() {
	if r.timed == r.alarm.number {
		return
	}
	r.timed = r.alarm.number
	// Stop may be too late. The number of the alarm then identifies the callback as an earlier one.
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if r.alarm.kind != alarmNone {
		// The number is captured, because the machine may have another alarm when the timer fires.
		number := r.alarm.number
		r.timer = r.c.clock.After(r.alarm.after, func() { r.c.alarmed(r, number) })
	}
}

// fail ends the round after an event or an effect has panicked; the next round of the partition starts. Without a
// Guard, in the simulation, the panic continues.
func (r *round) fail(err error) {
	switch {
	// The members have been answered, and the next round has started.
	case r.passed.Load():
	case r.failed.Swap(true): // the end of the round has panicked as well
		r.leave()
	default:
		r.deliver(&event{kind: eventPanicked, err: err})
	}
}

// cancel delivers the event that the request of a member was canceled.
func (r *round) cancel(m *member) { r.deliver(&event{kind: eventCanceled, member: m}) }

// perform performs an effect. Requests may be answered, by further events, before perform returns.
func (r *round) perform(e *effect) {
	attempt := e.attempt
	switch e.kind {
	case effectPrepare:
		r.prepare(e)
	case effectPropose:
		r.sendProposal(e)
	case effectBring:
		for _, node := range e.nodes {
			// The missing commit goes to each acceptor by itself, because each may lack it alone.
			coordinator.AddNodeTrace(e.trace, r.c.view.Self(), "Sending missing commit to", node)
			r.c.acceptors.Commit(node, e.trace, e.epoch, e.proposal, e.timeout, func(err error) {
				r.deliver(&event{kind: eventBrought, attempt: attempt, node: node, err: err})
			})
		}
	case effectRead:
		r.c.coordinator.Read(&coordinator.ReadRequest{
			Command:     e.cmd,
			Consistency: e.level,
			Timeout:     e.timeout,
			Trace:       e.trace,
			// The pages of the replicas and their merge are a part of what the round may use.
			Memory: repairPages * int(e.cmd.Limits.Bytes),
		}, func(page []byte, err error) {
			r.deliver(&event{kind: eventRead, attempt: attempt, page: page, err: err})
		})
	case effectEvaluate:
		// The conditions run here, without the lock; their result is an event like any other.
		r.deliver(&event{kind: eventEvaluated, attempt: attempt, verdict: e.question.ask()})
	case effectCommit:
		r.write(e)
	case effectAlone:
		r.decideAlone(e)
	case effectAskTurn:
		r.requestTurn(e)
	case effectPassTurn:
		r.c.passTurn(e.nodes[0], r.partition, e.turn)
	case effectAnswer:
		for i := range e.answers {
			r.answer(&e.answers[i], e.cause)
		}
	case effectNote:
		coordinator.AddTrace(e.trace, r.c.view.Self(), e.text)
	case effectLeave:
		r.leave()
	}
}

// prepare asks acceptors for promises.
func (r *round) prepare(e *effect) {
	attempt := e.attempt
	for _, node := range e.nodes {
		coordinator.AddNodeTrace(e.trace, r.c.view.Self(), "Preparing ballot with", node)
		r.c.acceptors.Prepare(node, e.trace, e.epoch, e.ballot, e.previous, e.cmd, e.timeout,
			func(p *ballot.Promise, err error) {
				r.deliver(&event{kind: eventPromised, attempt: attempt, node: node, promise: p, err: err})
			})
	}
}

// sendProposal sends the proposal to acceptors.
func (r *round) sendProposal(e *effect) {
	// Captured by value: a callback that refers to the effect would move the effects of every step to the heap.
	attempt, nodes := e.attempt, e.nodes
	for _, node := range nodes {
		coordinator.AddNodeTrace(e.trace, r.c.view.Self(), "Proposing to", node)
	}
	r.c.acceptors.Accept(nodes, e.trace, e.epoch, e.proposal, e.timeout,
		func(place int, refused ballot.Ballot, err error) {
			r.deliver(&event{kind: eventAccepted, attempt: attempt, node: nodes[place], refused: refused, err: err})
		})
}

// write writes the decided change to all replicas as an ordinary write.
func (r *round) write(e *effect) {
	attempt := e.attempt
	d := &decision{acceptors: r.c.acceptors, trace: e.trace, proposal: e.proposal, short: *e.proposal,
		accepted: e.accepted}
	// The short form is prepared once for all replicas, and immutable from here on.
	d.short.Update, d.short.Accepted = nil, true
	r.c.coordinator.Write(&coordinator.WriteRequest{
		Mutations:   []*row.Mutation{mutationIn(e.proposal.Update)},
		Consistency: e.level,
		Type:        coordinator.WriteSimple,
		Timeout:     e.timeout,
		Trace:       e.trace,
		Sender:      d,
	}, func(err error) { r.deliver(&event{kind: eventCommitted, attempt: attempt, err: err}) })
}

// requestTurn asks an arbiter for the partition's turn.
func (r *round) requestTurn(e *effect) {
	asked, arbiter := e.attempt, e.nodes[0]
	granted := func(t contention.Turn) {
		r.deliver(&event{kind: eventGranted, attempt: asked, node: arbiter, turn: t})
	}
	// This node's arbiter is called without a message, and may answer before Ask returns.
	if arbiter == r.c.view.Self() {
		r.c.arbiter.Ask(r.partition, arbiter, e.timeout, granted)
		return
	}
	sent := r.c.clock.Monotonic()
	r.c.arbiters.Ask(arbiter, r.partition, e.timeout, func(t contention.Turn, err error) {
		if err != nil {
			r.deliver(&event{kind: eventNoTurn, attempt: asked, node: arbiter})
			return
		}
		at := r.c.clock.Monotonic()
		// Only answers are recorded: an error says nothing about the node's latency.
		r.c.responsive.Answered(arbiter, at-sent, at)
		granted(t)
	})
}

// answer answers a member. A panic of the request's code does not keep the answers from other members.
func (r *round) answer(a *answer, cause Cause) {
	defer r.c.guard.Recover(guardWhere, nil)
	if a.err != nil {
		// A cancellation is the client's decision.
		if !a.uncounted {
			r.c.countFailure(a.err, cause)
		}
		a.member.done(false, a.page, a.err)
		return
	}
	a.member.done(a.applied, a.page, nil)
}

// leave starts the next round of the partition.
func (r *round) leave() {
	// After a panic, leave may be called a second time.
	if r.passed.Swap(true) {
		return
	}
	next := r.c.queues.next(r.partition, &r.c.limits)
	if next == nil {
		return
	}
	begin, scheduled := r.c.newRound(r.partition, next).deliverBegun, false
	// If the clock panics, the next round begins here: nothing else would begin it, and its members would not end.
	defer func() {
		if !scheduled {
			begin()
		}
	}()
	// The next round starts on another stack: otherwise the depth of this one would grow with the queue.
	r.c.clock.After(0, begin)
	scheduled = true
}

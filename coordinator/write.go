package coordinator

import (
	"errors"
	"sync"
	"time"

	"cqld/coordinator/quorum"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
)

// Write applies the mutations, each at its own replicas, and calls done when each is acknowledged by as many replicas
// as the level requires. It sends every live replica its mutations at once, and stores hints for replicas that are down
// or do not answer. The caller must never change the mutations again, even after done, because late hints contain
// them.
func (c *Coordinator) Write(req *WriteRequest, done func(error)) {
	if len(req.Mutations) == 0 {
		done(nil)
		if req.Settled != nil {
			req.Settled(Settlement{Hinted: true, Majority: true})
		}
		return
	}
	if req.Ordered {
		c.order(req, c.Write, done)
		return
	}
	op := c.writes.Get().(*writeOp)
	if err := op.admit(req, done); err != nil {
		c.writes.Put(op)
		done(err)
		if req.Settled != nil {
			req.Settled(Settlement{})
		}
		return
	}
	if op.local() {
		op.target(0, op.self).apply(op.mutations, req.Timeout)
		op.release()
		return
	}
	op.begin()
	op.release()
}

// targetState is the state of a replica in a write.
type targetState uint8

const (
	targetOpen   targetState = iota // asked, no answer yet
	targetAcked                     // has its mutations
	targetFailed                    // answered with an error, or is down
)

// writeTarget is one node's share of a write.
type writeTarget struct {
	op        *writeOp
	node      ring.NodeID
	alive     bool
	state     targetState
	hinted    bool
	kept      bool // the hint is on disk
	err       error
	plan      int // the plan whose answer is outstanding
	mutations []*row.Mutation
	parts     []int // indexes of parts, parallel to mutations
	onDone    func(error)
}

// writePart is one mutation with its acknowledgements.
type writePart struct {
	tally quorum.Tally
	met   bool
}

// writeOp is a write in progress. It returns to the pool when refs is zero. References are held by the caller, the
// timer and every outstanding request.
type writeOp struct {
	c          *Coordinator
	mu         sync.Mutex
	refs       int
	mutations  []*row.Mutation
	level      ring.Consistency
	kind       WriteType
	trace      Trace
	began      time.Duration // monotonic
	since      time.Duration // monotonic: of Hints.Add
	generation uint64        // of Coordinator.sent
	deadline   time.Duration
	size       int64
	done       func(error) // nil after it was called
	sender     Sender      // sends the mutation in place of Replica.Apply; may be nil
	topology   *ring.Topology
	self       ring.NodeID
	parts      []writePart
	unmet      int
	targets    []*writeTarget
	spare      []*writeTarget // of earlier plans, for reuse
	waiting    int            // number of open targets
	plans      int
	refused    bool
	ended      bool // the deadline has passed
	direct     bool
	applied    bool // this node has applied the mutations before
	settled    func(Settlement)
	timer      env.Timer
	onTimeout  func()
	onReplan   func()
}

func newWriteOp(c *Coordinator) *writeOp {
	op := &writeOp{c: c}
	op.onTimeout = op.timeout
	op.onReplan = op.replan
	return op
}

// writeOpBytes is the approximate size of a write in progress without its mutations.
const writeOpBytes = 768

// admit initializes op with the request, or refuses it because too many are in flight.
func (op *writeOp) admit(req *WriteRequest, done func(error)) error {
	c := op.c
	size := sized(req.Mutations) + writeOpBytes
	if n := c.writing.Add(1); n > c.limits.WritesInFlight {
		c.writing.Add(-1)
		c.counts.overloaded.Add(1)
		return &Overloaded{What: "too many writes in flight"}
	}
	if n := c.writeBytes.Add(size); n > c.limits.WriteBytesInFlight && n > size {
		c.writing.Add(-1)
		c.writeBytes.Add(-size)
		c.counts.overloaded.Add(1)
		return &Overloaded{What: "too many bytes of writes in flight"}
	}
	op.refs, op.generation = 1, c.sent.Enter()
	op.mutations = append(op.mutations[:0], req.Mutations...)
	op.level, op.kind, op.trace, op.size, op.done = req.Consistency, req.Type, req.Trace, size, done
	op.sender, op.parts = req.Sender, op.parts[:0]
	op.deadline = req.Timeout // until begin, a duration
	op.plans, op.refused, op.ended, op.direct, op.waiting = 0, false, false, false, 0
	op.applied, op.since, op.settled = req.Applied, req.Since, req.Settled
	op.topology, op.self = c.view.Topology(), c.view.Self()
	return nil
}

// local reports whether this node is the only replica of the only mutation: its answer is then the result, and no timer
// is needed.
func (op *writeOp) local() bool {
	if len(op.mutations) != 1 || op.applied {
		return false
	}
	m := op.mutations[0]
	table := op.c.view.Schema().TableByStorage(m.Table)
	op.direct = table != nil && op.level != ring.EachQuorum &&
		op.level.BlockFor(table.Replication, op.c.localDC) <= 1 && op.c.onlySelf(op.topology, table, m.Key.Token)
	return op.direct
}

// apply sends the mutations to the only replica of a local write.
func (t *writeTarget) apply(mutations []*row.Mutation, timeout time.Duration) {
	t.op.refs++
	t.op.waiting = 1
	epoch := t.op.topology.Epoch()
	if t.op.sender != nil {
		t.op.sender.Send(t.node, epoch, timeout, t.onDone)
		return
	}
	t.op.c.replica(t.node, t.op.trace).Apply(epoch, mutations, timeout, t.onDone)
}

// begin plans and sends. It returns Unavailable before anything is sent.
func (op *writeOp) begin() {
	op.began = op.c.clock.Monotonic()
	op.deadline += op.began
	if op.since == 0 {
		op.since = op.began
	}
	op.proceed()
}

func (op *writeOp) proceed() {
	if err := op.plan(); err != nil {
		if op.c.waits(err, op.deadline) {
			op.mu.Lock()
			op.plans--
			op.refs++
			op.mu.Unlock()
			op.c.clock.After(arrivalPause, func() {
				defer op.guarded()
				op.proceed()
				op.release()
			})
			return
		}
		done := op.done
		op.done = nil
		op.conclude(done, err)
		return
	}
	op.mu.Lock()
	op.refs++
	op.timer = op.c.clock.After(op.c.remaining(op.deadline), op.onTimeout)
	op.mu.Unlock()
	op.send()
}

// send sends the mutations to every live replica and stores hints for the others. Remote nodes come first, so that they
// work concurrently with this node.
func (op *writeOp) send() {
	c := op.c
	op.mu.Lock()
	plan, targets := op.plans, append(make([]*writeTarget, 0, 8), op.targets...)
	timeout := c.patience(op.began, op.deadline)
	for _, t := range targets {
		if t.alive {
			op.waiting++
			op.refs++
		} else {
			t.state = targetFailed
		}
	}
	epoch := op.topology.Epoch()
	op.mu.Unlock()

	var shared *[]byte // the encoding of all mutations, used by most targets
	var self *writeTarget
	for _, t := range targets {
		switch {
		case !t.alive:
			op.hint(t, plan)
		case t.node == op.self:
			self = t
		default:
			shared = op.sendTo(t, epoch, timeout, shared)
		}
	}
	if shared != nil {
		c.release(shared)
	}
	switch {
	case self != nil && op.applied:
		self.onDone(nil)
	case self != nil && op.sender != nil:
		op.sender.Send(self.node, epoch, timeout, self.onDone)
	case self != nil:
		c.replica(self.node, op.trace).Apply(epoch, self.mutations, timeout, self.onDone)
	}
}

// sendTo sends t its mutations, in the shared encoding if it receives all of them.
func (op *writeOp) sendTo(t *writeTarget, epoch uint64, timeout time.Duration, shared *[]byte) *[]byte {
	traceNode(op.trace, op.self, "Sending mutation to", t.node)
	if op.sender != nil {
		op.sender.Send(t.node, epoch, timeout, t.onDone)
		return shared
	}
	replica := op.c.replica(t.node, op.trace)
	remote, ok := replica.(Remote)
	if !ok {
		replica.Apply(epoch, t.mutations, timeout, t.onDone)
		return shared
	}
	if len(t.mutations) == len(op.mutations) {
		if shared == nil {
			shared = op.c.buffer()
			*shared = remote.AppendMutations((*shared)[:0], epoch, t.mutations)
		}
		remote.ApplyEncoded(ForWrite, *shared, timeout, t.onDone)
		return shared
	}
	own := op.c.buffer()
	*own = remote.AppendMutations((*own)[:0], epoch, t.mutations)
	remote.ApplyEncoded(ForWrite, *own, timeout, t.onDone)
	op.c.release(own)
	return shared
}

// answer is the event of a replica's answer.
func (op *writeOp) answer(t *writeTarget, plan int, err error) {
	defer op.guarded()
	if op.direct {
		if err == nil {
			t.state = targetAcked
		}
		done := op.done
		op.done = nil
		op.conclude(done, op.directResult(t, err))
		op.release()
		return
	}
	op.mu.Lock()
	if plan != op.plans || t.state != targetOpen {
		op.mu.Unlock()
		op.release()
		return
	}
	op.waiting--
	t.state, t.err = targetAcked, err
	if err != nil {
		t.state = targetFailed
		var refusal *NotReplica
		op.refused = op.refused || errors.As(err, &refusal)
	}
	op.count(t)
	next := op.judge()
	op.mu.Unlock()
	if err != nil {
		traceNode(op.trace, op.self, "No acknowledgement from", t.node)
		op.hint(t, plan)
	} else {
		traceNode(op.trace, op.self, "Mutation acknowledged by", t.node)
	}
	op.act(next)
	op.release()
}

// count adds t's answer to its parts.
func (op *writeOp) count(t *writeTarget) {
	for _, i := range t.parts {
		p := &op.parts[i]
		if t.state == targetAcked {
			p.tally.Answered(t.node)
		} else {
			p.tally.Failed(t.node)
		}
		if !p.met && p.tally.Satisfied() {
			p.met = true
			op.unmet--
		}
	}
}

// verdict is the consequence of the counts.
type verdict struct {
	done   func(error)
	err    error
	replan bool
	idle   bool // no answer is outstanding
}

// judge determines, with mu held, the consequence of the counts. Mutations that a replica refused are planned again: at
// once if the write cannot succeed otherwise, else when all have answered.
func (op *writeOp) judge() verdict {
	again := op.mayReplanLocked()
	v := verdict{idle: op.waiting == 0, replan: again && op.refused && op.waiting == 0}
	if op.done != nil && op.unmet == 0 {
		v.done, op.done = op.done, nil
	}
	for i := range op.parts {
		if p := &op.parts[i]; op.done == nil || p.met || !p.tally.Hopeless() || op.hintable(i) {
			continue
		}
		if again && (op.refused || op.c.outdated(op.topology.Epoch())) {
			v.replan = true
			break
		}
		v.done, op.done = op.done, nil
		v.err = op.failure(i)
	}
	if v.replan {
		v.idle = false
		op.plans++ // answers to the previous plan are ignored
		op.waiting = 0
	}
	return v
}

// mayReplanLocked reports whether another plan may follow. The caller holds mu.
func (op *writeOp) mayReplanLocked() bool {
	return !op.ended && op.plans < op.c.limits.PlansMax && !op.c.unsafe.NoReplan
}

// hintable reports whether a hint can still satisfy part i.
func (op *writeOp) hintable(i int) bool {
	if op.level != ring.Any || op.c.hints == nil {
		return false
	}
	if op.waiting > 0 {
		return true
	}
	for _, t := range op.targets {
		if t.state == targetFailed && !t.hinted {
			return true
		}
	}
	return false
}

// failure returns the error for part i, with mu held: a timeout if replicas did not answer or were unreachable, a
// failure if one of them returned an error.
func (op *writeOp) failure(i int) error {
	received, blockFor := op.parts[i].tally.Totals()
	var failures []NodeFailure
	for _, t := range op.targets {
		if t.state == targetFailed && t.alive && !silent(t.err) {
			failures = append(failures, NodeFailure{Node: t.node, Reason: reasonOf(t.err)})
		}
	}
	if len(failures) > 0 {
		return &WriteFailure{Consistency: op.level, Received: received, BlockFor: blockFor, Failures: failures,
			Type: op.kind}
	}
	op.c.counts.writeTimeouts.Add(1)
	return &WriteTimeout{Consistency: op.level, Received: received, BlockFor: blockFor, Type: op.kind}
}

// act executes the verdict, with mu unlocked.
func (op *writeOp) act(v verdict) {
	if v.done != nil {
		op.conclude(v.done, v.err)
	}
	if v.replan {
		op.c.counts.replans.Add(1)
		op.mu.Lock()
		pause := replanPause << max(op.plans-2, 0)
		op.refs++
		op.mu.Unlock()
		op.c.clock.After(pause, op.onReplan)
		return
	}
	if v.idle {
		op.stopTimer()
	}
}

// timeout is the event of the deadline: it answers, if that has not happened, and stores hints for replicas without an
// answer.
func (op *writeOp) timeout() {
	defer op.guarded()
	op.mu.Lock()
	op.ended = true
	op.timer = nil
	var done func(error)
	var err error
	if op.done != nil {
		done, op.done = op.done, nil
		for i := range op.parts {
			if !op.parts[i].met {
				err = op.failure(i)
				break
			}
		}
	}
	missed := op.missedLocked()
	plan := op.plans
	op.mu.Unlock()
	for _, t := range missed {
		op.hint(t, plan)
	}
	if done != nil {
		op.conclude(done, err)
	}
	op.release()
}

// conclude answers the client. The op may exist until the last replica has answered.
func (op *writeOp) conclude(done func(error), err error) {
	op.c.writing.Add(-1)
	done(err)
}

// directResult converts the answer of the only replica to the result for the client.
func (op *writeOp) directResult(t *writeTarget, err error) error {
	if err == nil {
		return nil
	}
	var overloaded *Overloaded
	if errors.As(err, &overloaded) {
		op.c.counts.overloaded.Add(1)
		return overloaded
	}
	if silent(err) {
		op.c.counts.writeTimeouts.Add(1)
		return &WriteTimeout{Consistency: op.level, BlockFor: 1, Type: op.kind}
	}
	return &WriteFailure{Consistency: op.level, BlockFor: 1, Type: op.kind,
		Failures: []NodeFailure{{Node: t.node, Reason: reasonOf(err)}}}
}

// stopTimer stops the timer, and releases its reference unless the timer has fired.
func (op *writeOp) stopTimer() {
	op.mu.Lock()
	timer := op.timer
	if op.waiting > 0 || op.done != nil {
		timer = nil
	} else {
		op.timer = nil
	}
	op.mu.Unlock()
	if timer != nil && timer.Stop() {
		op.release()
	}
}

// release releases one reference, and returns op to the pool after the last.
func (op *writeOp) release() {
	op.mu.Lock()
	op.refs--
	last := op.refs == 0
	op.mu.Unlock()
	if !last {
		return
	}
	c, settled, generation := op.c, op.settled, op.generation
	var settlement Settlement
	if settled != nil {
		settlement = op.settlement()
	}
	c.writeBytes.Add(-op.size)
	clear(op.mutations)
	for _, t := range op.targets {
		clear(t.mutations)
		op.spare = append(op.spare, t)
	}
	op.targets = op.targets[:0]
	op.trace, op.topology, op.timer, op.sender = nil, nil, nil, nil
	op.settled = nil
	c.writes.Put(op)
	c.sent.Leave(generation)
	if settled != nil {
		settled(settlement)
	}
}

// silent reports whether err means that a replica did not answer, rather than that it failed.
func silent(err error) bool {
	return err == nil || errors.Is(err, ErrNoReply) || errors.Is(err, ErrNotSent)
}

// reasonOf returns the reason of a replica's failure for the client.
func reasonOf(err error) FailureReason {
	var f *ReplicaFailure
	if errors.As(err, &f) {
		return f.Reason
	}
	return FailureUnknown
}

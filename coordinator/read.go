package coordinator

import (
	"errors"
	"sync"
	"time"

	"cqld/coordinator/quorum"
	"cqld/coordinator/resolve"
	"cqld/internal/env"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Read executes the command at as many replicas as the level requires. One sends its page, the others digests. If these
// differ, all send pages; Read merges them, and writes to each replica what it lacks before it calls done. The command
// must not change until then. Serial reads of one partition are refused: package paxos executes them.
func (c *Coordinator) Read(req *ReadRequest, done func(page []byte, err error)) {
	table := c.view.Schema().TableByStorage(req.Command.Table)
	if table == nil {
		done(nil, &UnknownTable{Table: req.Command.Table})
		return
	}
	if req.Consistency.IsSerial() && req.Command.SinglePartition() {
		done(nil, errSerialRead)
		return
	}
	if req.Cancel.Err() != nil {
		done(nil, env.ErrCanceled)
		return
	}
	if err := c.ReserveRead(); err != nil {
		done(nil, err)
		return
	}
	if !req.Command.SinglePartition() {
		c.readRange(req, table, done)
		return
	}
	op := c.reads.Get().(*readOp)
	op.prepare(req, table, c.view.Topology())
	op.whole, op.done = true, done
	if c.onlySelf(op.topology, table, req.Command.Key.Token) && op.level.BlockFor(table.Replication, c.localDC) <= 1 {
		op.deadline = 0 // no clock and no timer: this node's answer is the result
		op.set = ring.ReplicaSet{Natural: append(op.natural[:0], op.self)}
	} else {
		op.deadline = c.clock.Monotonic() + req.Timeout
		op.set = c.replicasOf(op.topology, table, req.Command.Key.Token)
	}
	if req.Cancel != nil && !op.endsHere(req) {
		op.cancel = req.Cancel.Child(c.clock, op.deadline)
		op.refs++
		op.watched = req.Cancel
		op.watched.Watch(&op.hook)
	}
	op.begin(req.Blocks)
	op.release()
}

// endsHere reports whether the read consists of one request to this node that is executed in the caller's goroutine and
// ends with the Cancel of req: then there is nothing else to cancel.
func (op *readOp) endsHere(req *ReadRequest) bool {
	if op.deadline != 0 || !req.Blocks || req.Command.Cancel != req.Cancel {
		return false
	}
	_, ok := op.c.replica(op.self, op.trace).(Blocking)
	return ok
}

// errSerialRead refuses reads that need a round of Paxos.
var errSerialRead = errors.New("coordinator: package paxos executes the serial reads of one partition")

// canceled is the event that the caller no longer waits for the answer.
func (op *readOp) canceled() {
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		op.release()
		return
	}
	op.failLocked(env.ErrCanceled)
}

// readTarget is one replica of a read.
type readTarget struct {
	op       *readOp
	node     ring.NodeID
	state    readState
	err      error
	sent     time.Duration
	digest   row.Digest
	page     *[]byte // retained copy; nil if only the digest is known
	onPage   func([]byte, error)
	onDigest func(row.Digest, error)
}

func (t *readTarget) at() ring.NodeID { return t.node }

type readState uint8

const (
	readSpare    readState = iota // alive, not asked yet
	readOpenPage                  // page requested
	readOpenDigest
	readAnswered
	readFailed
)

// readPhase is the phase of a read: what it waits for.
type readPhase uint8

const (
	phaseDigest readPhase = iota // one page and digests
	phaseData                    // pages, because digests differed or a page ended early
	phaseRepair                  // acknowledgements of repairs
)

// readOp is a read of one partition, or of one range of the ring with one replica set. It returns to the pool when refs
// is zero, like writeOp.
type readOp struct {
	c     *Coordinator
	mu    sync.Mutex
	refs  int
	round int // answers to earlier rounds are ignored
	asked *row.ReadCommand
	cmd   *row.ReadCommand // with the filter that replicas evaluate
	// requested is the command of the request. Its filter may have conditions that no replica evaluates.
	requested *row.ReadCommand
	level     ring.Consistency
	table     *schema.Table
	topology  *ring.Topology
	self      ring.NodeID
	set       ring.ReplicaSet
	only      []ring.NodeID // ReadRequest.Only
	natural   [1]ring.NodeID
	deadline  time.Duration
	started   time.Duration
	trace     Trace
	done      func([]byte, error) // nil after it was called
	whole     bool                // not part of a range read: counted, and planned again if refused
	plans     int

	phase      readPhase
	tally      quorum.Tally
	targets    []*readTarget // live, nearest first
	spareSlots []*readTarget
	first      []readRequest // the requests of the first round
	refused    bool
	remote     bool // another node was asked
	timer      env.Timer
	onTimer    func()
	resolver   resolve.Resolver
	rounds     int
	next       *resolve.Position // where the read continues after the repairs
	kept       []*[]byte         // pages referenced by the resolver's result
	memory     int               // of ReadRequest
	cancel     *env.Cancel       // cancels the requests to replicas; nil means that nothing does
	hook       env.Hook          // of watched
	watched    *env.Cancel       // the request's Cancel, if cancel is this read's own child of it
}

func newReadOp(c *Coordinator) *readOp {
	op := &readOp{c: c}
	op.onTimer, op.hook.F = op.tick, op.canceled
	return op
}

// prepare resets op for a request; the caller adds the replicas.
func (op *readOp) prepare(req *ReadRequest, table *schema.Table, t *ring.Topology) {
	op.refs = 1
	op.requested, op.cmd, op.asked = req.Command, req.Command, req.Command
	op.level, op.only, op.table, op.trace = req.Consistency, req.Only, table, req.Trace
	op.topology, op.self = t, op.c.view.Self()
	op.round, op.rounds, op.plans, op.phase, op.whole = 0, 0, 0, phaseDigest, false
	op.refused, op.remote, op.next = false, false, nil
	op.cancel, op.watched, op.memory = nil, nil, req.Memory
	op.resolver = op.newResolver()
}

// newResolver returns the resolver of the present command.
func (op *readOp) newResolver() resolve.Resolver {
	r := resolve.New(op.cmd, resultBytes(op.cmd, op.c.limits.ResultBytes))
	r.SetMemory(op.memory)
	for _, b := range op.kept { // of an earlier plan
		_ = r.Hold(len(*b)) // Err returns the error
	}
	return r
}

// resultBytes returns the size at which the answer to cmd ends: the limit of cmd, but no more than most.
func resultBytes(cmd *row.ReadCommand, most int) int {
	if n := cmd.Limits.Bytes; n > 0 {
		return min(most, int(n))
	}
	return most
}

// begin chooses replicas and sends the requests. blocks means that the caller's goroutine may block on the disk.
func (op *readOp) begin(blocks bool) {
	if err := op.plan(); err != nil {
		op.mu.Lock()
		op.refs++
		op.failLocked(err)
		return
	}
	op.filtered()
	op.first = op.choose(op.first[:0])
	if op.deadline > 0 {
		op.started = op.c.clock.Monotonic()
	}
	op.send(op.first, blocks)
	op.arm()
}

// readRequest is one request to be sent.
type readRequest struct {
	target *readTarget
	digest bool
}

// send sends requests, this node's own last: if the goroutine may block, it is executed there.
func (op *readOp) send(requests []readRequest, blocks bool) {
	c := op.c
	var now, timeout time.Duration
	op.mu.Lock()
	round, cmd, epoch := op.round, op.asked, op.topology.Epoch()
	op.refs += len(requests)
	if op.deadline > 0 {
		now = c.clock.Monotonic()
		timeout = max(op.deadline-now, time.Millisecond)
	}
	for _, a := range requests {
		a.target.sent = now
		op.remote = op.remote || a.target.node != op.self
	}
	op.mu.Unlock()
	var request *[]byte
	own := -1
	for i, a := range requests {
		if a.target.node == op.self {
			own = i
			continue
		}
		replica := c.replica(a.target.node, op.trace)
		if remote, ok := replica.(Remote); ok {
			if request == nil {
				request = c.buffer()
				*request = remote.AppendRead((*request)[:0], epoch, cmd)
			}
			a.sendEncoded(remote, round, *request, timeout)
			continue
		}
		a.send(replica, round, cmd, timeout)
	}
	if request != nil {
		c.release(request)
	}
	if own >= 0 {
		replica := c.replica(op.self, op.trace)
		if local, ok := replica.(Blocking); ok && blocks {
			requests[own].here(local, round, cmd, timeout)
			return
		}
		requests[own].send(replica, round, cmd, timeout)
	}
}

// callbacks returns the receivers of the answer; those of the first round are allocated once per target.
func (a readRequest) callbacks(round int) (func([]byte, error), func(row.Digest, error)) {
	t := a.target
	if round == 0 {
		return t.onPage, t.onDigest
	}
	return func(page []byte, err error) { t.op.gotPage(t, round, page, err) },
		func(d row.Digest, err error) { t.op.gotDigest(t, round, d, err) }
}

func (a readRequest) send(replica Replica, round int, cmd *row.ReadCommand, timeout time.Duration) {
	onPage, onDigest := a.callbacks(round)
	if a.digest {
		replica.Digest(a.target.op.topology.Epoch(), cmd, timeout, onDigest)
		return
	}
	replica.Read(a.target.op.topology.Epoch(), cmd, timeout, onPage)
}

// here executes the request at this node's replica in the caller's goroutine.
func (a readRequest) here(replica Blocking, round int, cmd *row.ReadCommand, timeout time.Duration) {
	onPage, onDigest := a.callbacks(round)
	if a.digest {
		replica.DigestHere(a.target.op.topology.Epoch(), cmd, timeout, onDigest)
		return
	}
	replica.ReadHere(a.target.op.topology.Epoch(), cmd, timeout, onPage)
}

func (a readRequest) sendEncoded(remote Remote, round int, request []byte, timeout time.Duration) {
	what := "Sending read to"
	if a.digest {
		what = "Sending digest read to"
	}
	traceNode(a.target.op.trace, a.target.op.self, what, a.target.node)
	onPage, onDigest := a.callbacks(round)
	if a.digest {
		remote.DigestEncoded(request, timeout, a.target.op.cancel, onDigest)
		return
	}
	remote.ReadEncoded(request, timeout, a.target.op.cancel, onPage)
}

// gotPage is the event of a replica's page.
func (op *readOp) gotPage(t *readTarget, round int, page []byte, err error) {
	defer op.guarded()
	op.mu.Lock()
	op.clocked(t)
	if op.stale(t, round) {
		op.mu.Unlock()
		op.release()
		return
	}
	if err != nil {
		op.failedLocked(t, err)
		return
	}
	op.answeredLocked(t)
	if op.phase == phaseData {
		if op.keepLocked(t, page) {
			op.gatherLocked()
		}
		return
	}
	if received, blockFor := op.tally.Totals(); blockFor == 1 && received == 1 && !op.tally.TwoSided() {
		op.succeedLocked(page)
		return
	}
	t.digest = row.DigestOf(page)
	if op.tally.Satisfied() && op.agreed() {
		op.succeedLocked(page)
		return
	}
	if op.keepLocked(t, page) {
		op.compareLocked()
	}
}

// gotDigest is the event of a replica's digest.
func (op *readOp) gotDigest(t *readTarget, round int, d row.Digest, err error) {
	defer op.guarded()
	op.mu.Lock()
	op.clocked(t)
	if op.stale(t, round) {
		op.mu.Unlock()
		op.release()
		return
	}
	if err != nil {
		op.failedLocked(t, err)
		return
	}
	op.answeredLocked(t)
	t.digest = d
	op.compareLocked()
}

// stale reports whether an answer is too late to be used.
func (op *readOp) stale(t *readTarget, round int) bool {
	return op.done == nil || round != op.round || t.state != readOpenPage && t.state != readOpenDigest
}

// clocked records how long t took to answer or to fail, even if the answer is too late: otherwise a slow node would
// never be detected.
func (op *readOp) clocked(t *readTarget) {
	if t.node != op.self {
		now := op.c.clock.Monotonic()
		op.c.peers.Record(t.node, now-t.sent, now)
	}
}

// answeredLocked counts t's answer.
func (op *readOp) answeredLocked(t *readTarget) {
	t.state = readAnswered
	op.tally.Answered(t.node)
}

// keepLocked copies a page, which is valid only during the callback. If there is no memory for it, the read fails:
// keepLocked then unlocks mu, releases the caller's reference, and returns false.
func (op *readOp) keepLocked(t *readTarget, page []byte) bool {
	if err := op.resolver.Hold(len(page)); err != nil {
		op.failLocked(err)
		return false
	}
	b := op.c.buffer()
	*b = append((*b)[:0], page...)
	t.page = b
	op.kept = append(op.kept, b)
	return true
}

// compareLocked ends the digest phase when enough replicas have answered, one of them with a page. It unlocks mu and
// releases the caller's reference.
func (op *readOp) compareLocked() {
	if !op.tally.Satisfied() {
		op.mu.Unlock()
		op.release()
		return
	}
	with := op.withPage()
	if with == nil {
		// The page is outstanding, or its sender failed and all others sent digests.
		if a, ok := op.needPage(); ok {
			op.mu.Unlock()
			op.send([]readRequest{a}, false)
			op.release()
			return
		}
		op.mu.Unlock()
		op.release()
		return
	}
	if op.agreed() {
		op.succeedLocked(*with.page)
		return
	}
	op.c.counts.digestMismatches.Add(1)
	trace(op.trace, op.self, "Digest mismatch: reading data of all")
	op.mismatchLocked(with)
}

// withPage returns a target whose page is retained.
func (op *readOp) withPage() *readTarget {
	for _, t := range op.targets {
		if t.state == readAnswered && t.page != nil {
			return t
		}
	}
	return nil
}

// agreed reports whether all answers have the same digest.
func (op *readOp) agreed() bool {
	var first *readTarget
	for _, t := range op.targets {
		switch {
		case t.state != readAnswered:
		case first == nil:
			first = t
		case t.digest != first.digest:
			return false
		}
	}
	return true
}

// resetTally resets the counts.
func (op *readOp) resetTally() {
	if op.only != nil {
		op.tally.ResetTo(op.set.Among(op.only))
		return
	}
	op.tally.Reset(op.level, op.table.Replication, op.topology, op.self, op.c.localDC)
	if !op.c.unsafe.ReadOneSide {
		op.tally.JoinRead(op.set, op.level, op.table.Replication)
	}
}

// mismatchLocked starts the data phase with all replicas that answered. Those with the same digest as the available
// page need not send theirs.
func (op *readOp) mismatchLocked(with *readTarget) {
	for _, t := range op.targets {
		if t.state == readAnswered && t.page == nil && t.digest == with.digest {
			t.page = with.page
		}
	}
	op.dataRoundLocked(func(t *readTarget) bool { return t.page != nil })
}

// dataRoundLocked requests pages from all replicas that answered, except those for which has returns true. It unlocks
// mu and releases the caller's reference.
func (op *readOp) dataRoundLocked(has func(*readTarget) bool) {
	op.phase = phaseData
	op.round++
	op.rounds++
	op.resetTally()
	var requests []readRequest
	for _, t := range op.targets {
		switch t.state {
		case readAnswered:
			op.tally.Opened(t.node)
			if has(t) {
				op.tally.Answered(t.node)
			} else {
				t.page = nil
				requests = append(requests, op.mark(t, false))
			}
		case readOpenPage, readOpenDigest, readSpare:
			t.state = readSpare
			op.tally.Opened(t.node)
		}
	}
	if len(requests) == 0 {
		op.gatherLocked()
		return
	}
	op.mu.Unlock()
	op.send(requests, false)
	op.release()
}

// succeedLocked answers with page. It unlocks mu and releases the caller's reference.
func (op *readOp) succeedLocked(page []byte) {
	if op.remote && op.deadline > 0 {
		op.c.tables.Record(op.table, op.c.clock.Monotonic()-op.started)
	}
	op.concludeLocked(page, nil)
}

// failLocked answers with err. It unlocks mu and releases the caller's reference.
func (op *readOp) failLocked(err error) { op.concludeLocked(nil, err) }

// concludeLocked answers the client. The op may exist until the last replica has answered, but no longer needs a page.
// It unlocks mu and releases the caller's reference.
func (op *readOp) concludeLocked(page []byte, err error) {
	done, kept, watched := op.done, op.kept, op.watched
	op.done, op.kept = nil, nil
	op.resolver = resolve.Resolver{}
	op.mu.Unlock()
	if op.whole {
		op.c.ReleaseRead()
	}
	done(page, err)
	for _, b := range kept {
		op.c.release(b)
	}
	if watched != nil {
		if watched.Remove(&op.hook) {
			op.release()
		}
		op.cancel.Cancel() // cancel requests whose answers are not needed
	}
	op.stopTimer()
	op.release()
}

// stopTimer stops the timer, and releases its reference unless the timer has fired.
func (op *readOp) stopTimer() {
	op.mu.Lock()
	timer := op.timer
	op.timer = nil
	op.mu.Unlock()
	if timer != nil && timer.Stop() {
		op.release()
	}
}

// release releases one reference, and returns op to the pool after the last.
func (op *readOp) release() {
	op.mu.Lock()
	op.refs--
	last := op.refs == 0
	op.mu.Unlock()
	if !last {
		return
	}
	c := op.c
	for _, t := range op.targets {
		t.page = nil
		op.spareSlots = append(op.spareSlots, t)
	}
	op.targets = op.targets[:0]
	op.requested, op.cmd, op.asked, op.table, op.topology, op.trace, op.cancel, op.watched = nil, nil, nil, nil, nil,
		nil, nil, nil
	op.set, op.only = ring.ReplicaSet{}, nil
	c.reads.Put(op)
}

package coordinator

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// CAS makes a conditional change of one partition. applied says whether the condition held; page is
// what it was decided on, valid until done returns. Changes of one partition through one coordinator
// go one after the other.
func (c *Coordinator) CAS(req *CASRequest, done func(applied bool, page []byte, err error)) {
	table := c.view.Schema().TableByStorage(req.Command.Table)
	if table == nil {
		done(false, nil, &UnknownTable{Table: req.Command.Table})
		return
	}
	op := &casOp{c: c, req: req, table: table, done: done, line: lineKey(req.Command.Table, req.Command.Key)}
	now := c.clock.Monotonic()
	op.deadline = now + req.Contention
	first, ok := c.casLines.enter(op, c.limits.CASInFlight)
	switch {
	case !ok:
		c.counts.overloaded.Add(1)
		done(false, nil, &Overloaded{What: "too many conditional changes in flight"})
	case first:
		op.begin()
	}
}

// readSerial answers a read of one partition with what is decided, after finishing what is in
// progress.
func (c *Coordinator) readSerial(req *ReadRequest, done func(page []byte, err error)) {
	contention := req.Contention
	if contention == 0 {
		contention = casContentionDefault
	}
	c.CAS(&CASRequest{
		Command: req.Command, Serial: req.Consistency, Consistency: plainLevel(req.Consistency),
		Contention: contention, Timeout: req.Timeout, Trace: req.Trace,
	}, func(_ bool, page []byte, err error) { done(page, asRead(err)) })
}

// asRead is the error of a serial read's votes as readers are told it.
func asRead(err error) error {
	var timeout *WriteTimeout
	var failure *WriteFailure
	var unknown *CASUnknown
	switch {
	case errors.As(err, &timeout):
		return &ReadTimeout{Consistency: timeout.Consistency, Received: timeout.Received, BlockFor: timeout.BlockFor}
	case errors.As(err, &failure):
		return &ReadFailure{Consistency: failure.Consistency, Received: failure.Received, BlockFor: failure.BlockFor, Failures: failure.Failures}
	case errors.As(err, &unknown):
		return &ReadTimeout{Consistency: unknown.Consistency, Received: unknown.Received, BlockFor: unknown.BlockFor}
	}
	return err
}

// casOp is a conditional change, or a serial read, under way.
type casOp struct {
	c        *Coordinator
	req      *CASRequest
	table    *schema.Table
	line     string
	deadline time.Duration // of contention

	mu       sync.Mutex
	done     func(bool, []byte, error) // nil once called
	topology *ring.Topology
	voters   electorate
	votes    []vote // of the natural, then the pending
	phase    casPhase
	round    int // a new one for every prepare: answers to earlier ones are of no interest
	ballot   Ballot
	proposal Proposal
	prior    Ballot // the latest decided one that the promises told of
	page     []byte
	reread   bool // page is not what the acceptors sent
	timer    env.Timer

	seen        int64    // the latest ballot of others
	own         []Ballot // proposals of this change that some may have accepted and nobody decided yet
	contentions int
	tries       int // since the last success
	plans       int
}

type casPhase uint8

const (
	casIdle casPhase = iota // between attempts
	casPreparing
	casPreparedWork // commits that are missing, or the read, are under way
	casSettling     // nothing will change; the last promises are waited for
	casAccepting
	casCommitting
)

// begin starts an attempt with a new ballot.
func (op *casOp) begin() {
	op.mu.Lock()
	if err := op.plan(); err != nil {
		op.concludeLocked(false, err)
		return
	}
	if op.c.clock.Monotonic() >= op.deadline { // all the time was spent in the line
		op.concludeLocked(false, op.timedOut())
		return
	}
	op.round++
	op.phase = casPreparing
	op.ballot = op.c.ballot(op.seen)
	op.page, op.reread, op.proposal = nil, false, Proposal{}
	op.armLocked()
	round, ballot, epoch, timeout := op.round, op.ballot, op.topology.Epoch(), op.req.Timeout
	asked := op.askedLocked()
	op.mu.Unlock()
	for _, i := range asked {
		node := op.votes[i].node
		traceNode(op.req.Trace, op.c.view.Self(), "Preparing ballot with", node)
		op.c.replicas.Replica(node).Prepare(epoch, ballot, op.req.Command, timeout, func(p *Promise, err error) {
			op.onPromise(round, i, p, err)
		})
	}
}

// armLocked sets the timer for the replicas' answers.
func (op *casOp) armLocked() {
	op.disarmLocked()
	round, phase := op.round, op.phase
	op.timer = op.c.clock.After(op.req.Timeout, func() { op.onTimeout(round, phase) })
}

func (op *casOp) disarmLocked() {
	if op.timer != nil {
		op.timer.Stop()
		op.timer = nil
	}
}

// onPromise is the event of an acceptor's answer to prepare.
func (op *casOp) onPromise(round, i int, p *Promise, err error) {
	op.mu.Lock()
	if round != op.round || op.done == nil {
		op.mu.Unlock()
		return
	}
	v := &op.votes[i]
	if op.phase != casPreparing {
		op.latePromise(v, p, err)
		return
	}
	switch {
	case err != nil:
		v.state, v.err, v.failed = voteFailed, err, true
	case p.Refused:
		v.state, v.failed = voteNo, true
		op.seen = max(op.seen, p.Promised.Micros)
	default:
		v.state = voteYes
		v.take(p)
	}
	switch {
	case op.carried():
		op.preparedLocked()
	case op.hopeless():
		op.outvotedLocked()
	default:
		op.mu.Unlock()
	}
}

// latePromise takes an answer to prepare that a quorum did not need. It frees mu.
func (op *casOp) latePromise(v *vote, p *Promise, err error) {
	switch {
	case err != nil:
		v.failed = true
	case p.Refused:
		v.failed = true
		op.seen = max(op.seen, p.Promised.Micros)
	default:
		v.take(p)
	}
	if op.phase == casSettling {
		op.declineLocked()
		return
	}
	op.mu.Unlock()
}

// preparedLocked goes on when a quorum has promised: first with what is in progress, then with what
// is missing, then with the condition. It frees mu.
func (op *casOp) preparedLocked() {
	var accepted, commit Proposal
	for i := range op.votes {
		v := &op.votes[i]
		if v.state != voteYes {
			continue
		}
		if v.accepted.Ballot.After(accepted.Ballot) {
			accepted = v.accepted
		}
		if v.commit.Ballot.After(commit.Ballot) {
			commit = v.commit
		}
	}
	switch {
	case slices.Contains(op.own, commit.Origin):
		op.proposal = commit
		op.commitLocked(op.req.Consistency)
	case op.lost(commit):
		op.concludeLocked(false, op.unknown())
	case accepted.Ballot.After(commit.Ballot) && len(accepted.Update) > 0 && !op.c.unsafe.NoPaxosRepair:
		trace(op.req.Trace, op.c.view.Self(), "Finishing incomplete Paxos round")
		op.c.counts.casFinished.Add(1)
		op.prior = commit.Ballot
		op.proposeLocked(accepted.Origin, accepted.Update)
	default:
		op.prior = commit.Ballot
		op.bringLocked(commit)
	}
}

// lost says that nobody can tell any more whether an earlier proposal of this change was decided: another
// was decided later, and something between the two. Those that were certainly not are forgotten.
func (op *casOp) lost(commit Proposal) bool {
	kept := op.own[:0]
	for _, b := range op.own {
		switch {
		case b.After(commit.Ballot):
			kept = append(kept, b)
		case !b.After(commit.Prior):
			return true
		}
	}
	op.own = kept
	return false
}

// bringLocked sends the latest decided change to those of the quorum that lack it, and waits: what is
// proposed next must not hide it. It frees mu.
func (op *casOp) bringLocked(commit Proposal) {
	op.phase = casPreparedWork
	var missing []ring.NodeID
	for i := range op.votes {
		if v := &op.votes[i]; v.state == voteYes && commit.Ballot.After(v.commit.Ballot) {
			missing = append(missing, v.node)
		}
	}
	if len(missing) == 0 {
		op.readLocked()
		return
	}
	op.armLocked()
	commit.Table, commit.Key = op.req.Command.Table, op.req.Command.Key
	round, epoch, timeout, left := op.round, op.topology.Epoch(), op.req.Timeout, len(missing)
	op.mu.Unlock()
	for _, node := range missing {
		traceNode(op.req.Trace, op.c.view.Self(), "Sending missing commit to", node)
		op.c.replicas.Replica(node).Commit(epoch, &commit, timeout, func(err error) {
			op.mu.Lock()
			switch {
			case round != op.round || op.phase != casPreparedWork || op.done == nil:
				op.mu.Unlock()
			case err != nil:
				op.retryLocked(err)
			default:
				if left--; left == 0 {
					op.readLocked()
					return
				}
				op.mu.Unlock()
			}
		})
	}
}

// readLocked finds what a quorum holds: the page that came with all promises, or, when they differ,
// that of an ordinary read with its repairs. It frees mu.
func (op *casOp) readLocked() {
	var page []byte
	equal := true
	for i := range op.votes {
		if v := &op.votes[i]; v.state == voteYes {
			if page == nil {
				page = v.page
			}
			equal = equal && bytes.Equal(page, v.page)
		}
	}
	if equal {
		op.page = page
		op.decideLocked()
		return
	}
	op.reread = true
	op.armLocked()
	round := op.round
	op.mu.Unlock()
	trace(op.req.Trace, op.c.view.Self(), "Promises came with different rows: reading at quorum")
	op.c.Read(&ReadRequest{
		Command: op.req.Command, Consistency: plainLevel(op.req.Serial), Timeout: op.req.Timeout, Trace: op.req.Trace,
	}, func(page []byte, err error) {
		op.mu.Lock()
		switch {
		case round != op.round || op.phase != casPreparedWork || op.done == nil:
			op.mu.Unlock()
		case err != nil:
			op.concludeLocked(false, op.asWrite(err))
		default:
			op.page = append([]byte{}, page...)
			op.decideLocked()
		}
	})
}

// decideLocked asks the condition and proposes what follows. It frees mu.
func (op *casOp) decideLocked() {
	if op.req.Update == nil {
		op.declineLocked()
		return
	}
	m, applies, err := op.req.Update(op.page, op.ballot.Micros)
	switch {
	case err != nil:
		op.concludeLocked(false, err)
	case !applies:
		op.declineLocked()
	case m == nil || m.Empty():
		op.proposeLocked(op.ballot, nil)
	default:
		op.proposeLocked(op.ballot, row.AppendMutation(nil, m))
	}
}

// declineLocked answers that nothing was changed, when all voters are known to hold nothing that could
// still be decided. The last of them is waited for a little; otherwise nothing is proposed first: it
// makes what they hold void. It frees mu.
func (op *casOp) declineLocked() {
	certain, possible := op.settled()
	switch {
	case certain, op.c.unsafe.NoPaxosRepair:
		op.concludeLocked(false, nil)
	case !possible:
		op.proposeLocked(op.ballot, nil)
	case op.phase == casSettling:
		op.mu.Unlock()
	default:
		op.phase = casSettling
		op.disarmLocked()
		round := op.round
		op.timer = op.c.clock.After(casSettle, func() { op.onUnsettled(round) })
		op.mu.Unlock()
	}
}

// onUnsettled is the event that the last promises were waited for long enough.
func (op *casOp) onUnsettled(round int) {
	op.mu.Lock()
	if round != op.round || op.phase != casSettling || op.done == nil {
		op.mu.Unlock()
		return
	}
	op.proposeLocked(op.ballot, nil)
}

// proposeLocked asks the voters to accept. It frees mu.
func (op *casOp) proposeLocked(origin Ballot, update []byte) {
	op.phase = casAccepting
	op.proposal = Proposal{Ballot: op.ballot, Origin: origin, Prior: op.prior, Table: op.req.Command.Table, Key: op.req.Command.Key, Update: update}
	for i := range op.votes {
		v := &op.votes[i]
		v.state = voteOpen
		if v.node != op.c.view.Self() && !op.c.view.Alive(v.node) {
			v.state, v.err = voteFailed, ErrNotSent
		}
	}
	if op.hopeless() {
		op.outvotedLocked()
		return
	}
	op.armLocked()
	round, epoch, timeout, asked, p := op.round, op.topology.Epoch(), op.req.Timeout, op.askedLocked(), op.proposal
	op.mu.Unlock()
	for _, i := range asked {
		node := op.votes[i].node
		traceNode(op.req.Trace, op.c.view.Self(), "Proposing to", node)
		op.c.replicas.Replica(node).Accept(epoch, &p, timeout, func(refused Ballot, err error) {
			op.onAccept(round, i, refused, err)
		})
	}
}

// onAccept is the event of an acceptor's answer to a proposal.
func (op *casOp) onAccept(round, i int, refused Ballot, err error) {
	op.mu.Lock()
	if round != op.round || op.phase != casAccepting || op.done == nil {
		op.mu.Unlock()
		return
	}
	v := &op.votes[i]
	switch {
	case err != nil:
		v.state, v.err = voteFailed, err
	case refused.Present():
		v.state = voteNo
		op.seen = max(op.seen, refused.Micros)
	default:
		v.state = voteYes
	}
	switch {
	case op.carried():
		op.decidedLocked()
	case op.hopeless():
		op.outvotedLocked()
	default:
		op.mu.Unlock()
	}
}

// decidedLocked goes on when a quorum has accepted. It frees mu.
func (op *casOp) decidedLocked() {
	mine := op.proposal.Origin == op.ballot || slices.Contains(op.own, op.proposal.Origin)
	if !mine || len(op.proposal.Update) == 0 {
		op.own = nil // what of them was not decided before this ballot never will be
	}
	switch {
	case len(op.proposal.Update) > 0 && mine:
		op.commitLocked(op.req.Consistency)
	case len(op.proposal.Update) > 0:
		op.commitLocked(plainLevel(op.req.Serial))
	default:
		op.concludeLocked(op.req.Update != nil && op.changedNothing(), nil)
	}
}

// changedNothing says whether the condition held, but there was nothing to change.
func (op *casOp) changedNothing() bool {
	_, applies, err := op.req.Update(op.page, op.ballot.Micros)
	return err == nil && applies
}

// commitLocked writes what was decided to all replicas as an ordinary write. It frees mu.
func (op *casOp) commitLocked(level ring.Consistency) {
	op.phase = casCommitting
	op.disarmLocked()
	p := op.proposal.Clone()
	p.Table, p.Key = op.req.Command.Table, op.req.Command.Key
	mine := p.Origin == op.ballot || slices.Contains(op.own, p.Origin)
	done := op.done
	early := mine && level == ring.Any
	if early {
		op.done = nil
	}
	op.mu.Unlock()
	m := new(row.Mutation)
	c := wire.NewCursor(p.Update)
	row.ConsumeMutation(&c, m)
	if early {
		done(true, op.page, nil)
	}
	op.c.Write(&WriteRequest{
		Mutations: []*row.Mutation{m}, Consistency: level, Type: WriteSimple, Timeout: op.req.Timeout, Trace: op.req.Trace, decided: &p,
	}, func(err error) {
		switch {
		case early:
			op.leave()
		case mine:
			op.mu.Lock()
			op.own = nil // it is decided, whatever becomes of this write
			op.concludeLocked(true, op.decidedButFailed(level, err))
		default:
			// Whether all went well or not, the next promises tell what there is.
			op.mu.Lock()
			pause := time.Duration(0)
			if err != nil {
				pause = op.pause()
			}
			op.againLocked(pause)
		}
	})
}

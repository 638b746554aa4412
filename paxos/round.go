package paxos

import (
	"bytes"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
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
	if req.Cancel.Err() != nil {
		done(false, nil, env.ErrCanceled)
		return
	}
	if err := c.checkFactor(table, req); err != nil {
		done(false, nil, err)
		return
	}
	now := c.clock.Monotonic()
	m := &member{req: req, table: table, done: done, entered: now, deadline: now + req.Contention}
	partition := contention.Partition(req.Command.Table, req.Command.Key)
	first, ok := c.queues.enter(partition, m, c.limits.InFlight)
	switch {
	case !ok:
		c.counts.overloaded.Add(1)
		done(false, nil, &coordinator.Overloaded{What: "too many conditional changes in flight"})
	case first:
		c.watch(partition, m)
		c.newRound(partition, []*member{m}).begin()
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
	c.CAS(&CASRequest{
		Command: req.Command, Serial: req.Consistency, Consistency: plainLevel(req.Consistency),
		Contention: contention, Timeout: req.Timeout, Trace: req.Trace, Cancel: req.Cancel,
	}, func(_ bool, page []byte, err error) { done(page, asRead(err)) })
}

// SettleProposals executes a round of a partition in which every replica votes. Afterwards, each proposal that any
// replica had accepted before is either decided and on all replicas, or void. All replicas must be alive.
func (c *Proposer) SettleProposals(table schema.StorageID, key row.PartitionKey, timeout time.Duration,
	done func(error)) {
	c.CAS(&CASRequest{
		Command: &row.ReadCommand{Table: table, Key: key, Slices: []row.Slice{row.ExactRow([]byte{})}},
		Serial:  ring.All, Consistency: ring.All, Contention: timeout, Timeout: timeout,
	}, func(_ bool, _ []byte, err error) { done(asRead(err)) })
}

// round executes conditional changes and serial reads of a partition together, from their first attempt to their
// answers.
type round struct {
	c         *Proposer
	partition string
	table     *schema.Table
	serial    ring.Consistency
	level     ring.Consistency // of the commit
	timeout   time.Duration
	cmd       *row.ReadCommand
	disjoint  bool

	mu       sync.Mutex
	members  []*member
	over     bool
	topology *ring.Topology
	voters   electorate
	votes    []vote // of the natural replicas, then of the pending ones
	phase    roundPhase
	attempt  int // incremented for every prepare; answers to earlier attempts are ignored
	ballot   Ballot
	previous Ballot // the ballot on which the attempt rests instead of promises
	proposal Proposal
	prior    Ballot // the latest decided ballot in the promises, or the low bound
	history  History
	crowded  bool // another proposer has changed the partition
	outcomes []outcome
	// superseding means that an empty change is proposed only to make proposals in doubt void.
	superseding bool
	reread      bool // the page was not sent with the promises
	timer       env.Timer
	sent        time.Duration // when the requests of the phase were sent
	hurried     bool          // the timer no longer waits for replicas that do not answer

	delay   Cause // why the last attempt ended
	heard   int   // natural voters that answered the last phase of that attempt
	behind  int   // natural voters that have promised and have not confirmed the missing commit
	lacking error // why the last attempt could not be planned, if replicas may come back

	turn turnState // of a contended partition
	seen int64     // the latest ballot of other proposers
	// proposals of this round that some acceptors may have accepted and that are not known to be decided
	own         []doubtful
	contentions int
	left        atomic.Bool // the next round may start
	stage       Stage
	staged      time.Duration // when the round entered the stage
	tries       int           // since the last success
	plans       int
}

// outcome is the answer to a member if the attempt succeeds.
type outcome struct {
	applied bool
	changes bool // the proposal contains a change of the member
	page    []byte
	err     error
}

type roundPhase uint8

const (
	phaseIdle roundPhase = iota // between attempts
	phasePreparing
	phasePreparedWork // missing commits or the read are outstanding
	phaseSettling     // nothing will change; waiting for the last promises
	phaseAccepting
	phaseCommitting
)

// newRound returns a round of members, the first of their queue.
func (c *Proposer) newRound(partition string, members []*member) *round {
	op := &round{c: c, partition: partition, members: members}
	op.enroll()
	return op
}

// enroll computes the fields that depend on all members.
func (op *round) enroll() {
	first := op.members[0]
	op.table, op.serial, op.level, op.timeout = first.table, first.req.Serial, first.req.Consistency, first.req.Timeout
	found := false
	for _, m := range op.members {
		m.round.Store(op)
		op.timeout = min(op.timeout, m.req.Timeout)
		if !found && !m.reads() {
			op.level, found = m.req.Consistency, true
		}
	}
	commands := make([]*row.ReadCommand, len(op.members))
	for i, m := range op.members {
		commands[i] = m.req.Command
	}
	op.cmd, op.disjoint = Join(commands)
}

// attemptLocked starts an attempt with a new ballot. It unlocks mu.
func (op *round) attemptLocked() {
	if err := op.plan(); err != nil {
		if op.c.coordinator.MayArrive(err, math.MaxInt64) { // againLocked determines which members have time left
			op.lacking = err
			op.againLocked(CauseUnavailable, coordinator.ArrivalPause)
			return
		}
		op.failLocked(err)
		return
	}
	if op.expireLocked(op.c.clock.Monotonic()); op.over { // all the time was spent in the queue or in a pause
		op.mu.Unlock()
		return
	}
	op.attempt++
	op.outcomes, op.reread, op.superseding, op.proposal, op.previous, op.behind = nil, false, false, Proposal{},
		Ballot{}, 0
	if op.alone() {
		op.decideAloneLocked()
		return
	}
	op.phase = phasePreparing
	op.stageLocked(StagePrepare)
	if last, ok := op.c.lastBallots.take(op.partition, op.topology.Epoch(), op.serial); ok && len(op.own) == 0 {
		op.previous, op.prior, op.history = last.ballot, last.prior, last.history
		op.seen = max(op.seen, last.ballot.Micros)
	}
	op.ballot = op.c.ballot(op.seen, op.span())
	op.armLocked()
	attempt, ballot, previous, epoch, timeout, cmd := op.attempt, op.ballot, op.previous, op.topology.Epoch(),
		op.timeout, op.cmd
	asked, votes := op.askedLocked(), op.votes // of this attempt: the next one may start before all requests are sent
	op.mu.Unlock()
	for _, i := range asked {
		node := votes[i].node
		op.traceNode("Preparing ballot with", node)
		op.c.acceptors.Prepare(node, op.tracer(), epoch, ballot, previous, cmd, timeout, func(p *Promise, err error) {
			op.onPromise(attempt, i, p, err)
		})
	}
}

// span returns the number of timestamps that the round needs: two for each change.
func (op *round) span() (n int64) {
	for _, m := range op.members {
		if !m.reads() {
			n += 2
		}
	}
	return max(n, 1)
}

// armLocked sets the timer for the replicas' answers.
func (op *round) armLocked() {
	op.disarmLocked()
	op.sent, op.hurried = op.c.clock.Monotonic(), false
	attempt, phase := op.attempt, op.phase
	op.timer = op.c.clock.After(op.timeout, func() { op.onTimeout(attempt, phase) })
}

func (op *round) disarmLocked() {
	if op.timer != nil {
		op.timer.Stop()
		op.timer = nil
	}
}

// onPromise is the event of an acceptor's answer to prepare.
func (op *round) onPromise(attempt, i int, p *Promise, err error) {
	defer op.guarded()
	op.mu.Lock()
	if attempt != op.attempt || op.over {
		op.mu.Unlock()
		return
	}
	v := &op.votes[i]
	if op.phase != phasePreparing {
		op.latePromise(v, p, err)
		return
	}
	switch {
	case err != nil:
		v.state, v.err, v.failed = voteFailed, err, true
	case p.Refused:
		v.state, v.failed = voteNo, true
		op.seen = max(op.seen, p.Promised.Micros)
		op.hurryLocked()
	default:
		v.state = voteYes
		v.take(p)
	}
	switch {
	case op.carried():
		op.c.trips.Record(op.c.clock.Monotonic() - op.sent)
		op.preparedLocked()
	case op.hopeless():
		op.outvotedLocked()
	default:
		op.mu.Unlock()
	}
}

// latePromise processes an answer to prepare that a quorum did not need. It unlocks mu.
func (op *round) latePromise(v *vote, p *Promise, err error) {
	switch {
	case err != nil:
		v.failed = true
	case p.Refused:
		v.failed = true
		op.seen = max(op.seen, p.Promised.Micros)
	default:
		v.take(p)
	}
	if op.phase == phaseSettling {
		op.declineLocked()
		return
	}
	op.mu.Unlock()
}

// preparedLocked continues when a quorum has promised. It completes a proposal in progress, sends a missing commit, or
// evaluates the conditions, in this order. It unlocks mu.
func (op *round) preparedLocked() {
	op.stageLocked(StageRead)
	if op.previous.Present() {
		if op.enough(isUnchanged) {
			op.phase = phasePreparedWork
			op.readLocked()
			return
		}
		if !op.enough(isPromise) { // other proposers interfered: some acceptors promised, for others it was unnecessary
			op.contendedLocked()
			op.againLocked(CauseContention, 0)
			return
		}
		op.previous = Ballot{}
		for i := range op.votes {
			if v := &op.votes[i]; v.unchanged {
				v.state = voteFailed // this is not a promise
			}
		}
	}
	accepted, commit := op.inProgress()
	floor := op.floor()
	prior := commit.Ballot.Latest(floor)
	decided, lost := op.resolve(&commit, floor)
	op.history = HistoryAfter(&commit, floor)
	switch {
	case decided >= 0:
		op.proposal = op.own[decided].proposal
		op.commitLocked(op.level)
	case lost:
		op.lostLocked(&commit, floor)
	case len(accepted.Update) > 0 && !op.c.unsafe.NoRepair:
		op.trace("Finishing incomplete Paxos round")
		op.c.counts.finished.Add(1)
		op.prior = prior
		op.proposeLocked(accepted.Origin, accepted.Update)
	case op.ballot.Micros-op.span() < prior.Micros: // all timestamps must be after the prior ballot
		op.seen = max(op.seen, prior.Micros)
		op.againLocked(CauseQueue, 0)
	default:
		op.prior = prior
		op.bringLocked(commit)
	}
}

// bringLocked sends the latest decided change to the acceptors of the quorum that lack it, and waits: the next proposal
// must not hide it. Then it reads again: the pages of those promises lack the change, and so may the page of a pending
// replica, which receives the acceptors' state before the rows. It unlocks mu.
func (op *round) bringLocked(commit Proposal) {
	op.phase = phasePreparedWork
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
	op.c.counts.commitsSent.Add(1)
	op.behind = op.among(op.voters.natural, missing)
	op.armLocked()
	commit.Table, commit.Key = op.cmd.Table, op.cmd.Key
	attempt, epoch, timeout, left := op.attempt, op.topology.Epoch(), op.timeout, len(missing)
	op.mu.Unlock()
	for _, node := range missing {
		op.traceNode("Sending missing commit to", node)
		op.c.acceptors.Commit(node, op.tracer(), epoch, &commit, timeout, func(err error) {
			defer op.guarded()
			op.mu.Lock()
			switch {
			case attempt != op.attempt || op.phase != phasePreparedWork || op.over:
				op.mu.Unlock()
			case err != nil:
				op.retryLocked(err)
			default:
				if slices.Contains(op.voters.natural, node) {
					op.behind--
				}
				if left--; left == 0 {
					op.rereadLocked("Missing commits were sent: reading at quorum")
					return
				}
				op.mu.Unlock()
			}
		})
	}
}

// readLocked determines the content at a quorum: the page that all promises contain or, if the pages differ, the
// content of an ordinary read with read repair. It unlocks mu.
func (op *round) readLocked() {
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
		op.decideLocked(page)
		return
	}
	op.rereadLocked("Promises came with different rows: reading at quorum")
}

// rereadLocked reads at a quorum, with repairs. activity is the event in the trace. It unlocks mu.
func (op *round) rereadLocked(activity string) {
	op.reread = true
	op.c.counts.rereads.Add(1)
	op.disarmLocked() // the read has the same deadline, and its error the number of replicas that answered
	attempt := op.attempt
	op.mu.Unlock()
	op.trace(activity)
	op.c.coordinator.Read(&coordinator.ReadRequest{
		Command: op.cmd, Consistency: plainLevel(op.serial), Timeout: op.timeout, Trace: op.tracer(),
		Memory: repairPages * int(op.cmd.Limits.Bytes),
	}, func(page []byte, err error) {
		defer op.guarded()
		op.mu.Lock()
		switch {
		case attempt != op.attempt || op.phase != phasePreparedWork || op.over:
			op.mu.Unlock()
		case lacksMemory(err) && len(op.members) > 1:
			op.splitLocked()
		case err != nil:
			op.failLocked(err)
		default:
			op.decideLocked(append([]byte{}, page...))
		}
	})
}

// decideLocked evaluates the conditions and proposes their changes. It unlocks mu, also while it evaluates the
// conditions, which are code of the requests.
func (op *round) decideLocked(page []byte) {
	attempt, q := op.attempt, op.questionLocked(page)
	op.mu.Unlock()
	a := q.ask()
	op.mu.Lock()
	if attempt != op.attempt || op.phase != phasePreparedWork || op.over {
		op.mu.Unlock()
		return
	}
	op.takeLocked(&a)
	update := a.update
	switch {
	case a.tooMuch:
		op.splitLocked()
	case op.allFail():
		op.concludeLocked(op.outcomes, nil)
	case op.nothingApplies():
		op.declineLocked()
	case update == nil:
		op.proposeLocked(op.ballot, nil)
	default:
		if err := op.commitUnavailable(); err != nil {
			op.refuseCommitLocked(err)
			return
		}
		op.proposeLocked(op.ballot, row.AppendMutation(make([]byte, 0, update.Size()+proposalRest), update))
	}
}

// declineLocked answers that nothing was changed, if all voters are known to hold no proposal that could still be
// decided. It waits briefly for the last voters. Otherwise it first proposes an empty change, which makes their
// proposals void. It unlocks mu.
func (op *round) declineLocked() {
	certain, possible := op.settled()
	switch {
	case certain, op.c.unsafe.NoRepair:
		if certain && op.previous.Present() {
			op.settledLocked(op.previous, op.prior, op.history)
		} else if certain {
			op.settledLocked(op.ballot, op.prior, op.history)
		}
		op.concludeLocked(op.outcomes, nil)
	case !possible:
		op.proposeLocked(op.ballot, nil)
	case op.phase == phaseSettling:
		op.mu.Unlock()
	default:
		op.phase = phaseSettling
		op.disarmLocked()
		attempt := op.attempt
		op.timer = op.c.clock.After(settleWait, func() { op.onUnsettled(attempt) })
		op.mu.Unlock()
	}
}

// onUnsettled is the event that the last promises did not arrive in time.
func (op *round) onUnsettled(attempt int) {
	defer op.guarded()
	op.mu.Lock()
	if attempt != op.attempt || op.phase != phaseSettling || op.over {
		op.mu.Unlock()
		return
	}
	op.proposeLocked(op.ballot, nil)
}

// proposeLocked sends the proposal to the voters. It unlocks mu.
func (op *round) proposeLocked(origin Ballot, update []byte) {
	op.phase = phaseAccepting
	op.stageLocked(StagePropose)
	op.proposal = Proposal{
		Ballot: op.ballot, Origin: origin, Prior: op.prior, History: op.history, Previous: op.previous,
		Table: op.cmd.Table, Key: op.cmd.Key, Update: update,
	}
	for i := range op.votes {
		v := &op.votes[i]
		v.state = voteOpen
		if v.node != op.c.view.Self() && !op.c.view.Alive(v.node) {
			v.state, v.err = voteFailed, coordinator.ErrNotSent
		}
	}
	if op.hopeless() {
		op.outvotedLocked()
		return
	}
	if op.previous.Present() {
		op.c.counts.unprepared.Add(1)
	}
	op.armLocked()
	attempt, epoch, timeout, asked, votes, p := op.attempt, op.topology.Epoch(), op.timeout, op.askedLocked(),
		op.votes, op.proposal
	op.mu.Unlock()
	nodes := make([]ring.NodeID, len(asked))
	for place, i := range asked {
		nodes[place] = votes[i].node
	}
	for _, node := range nodes {
		op.traceNode("Proposing to", node)
	}
	op.c.acceptors.Accept(nodes, op.tracer(), epoch, &p, timeout,
		func(place int, refused Ballot, err error) { op.onAccept(attempt, asked[place], refused, err) })
}

// onAccept is the event of an acceptor's answer to a proposal.
func (op *round) onAccept(attempt, i int, refused Ballot, err error) {
	defer op.guarded()
	op.mu.Lock()
	if attempt != op.attempt || op.phase != phaseAccepting || op.over {
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
		op.hurryLocked()
	default:
		v.state = voteYes
	}
	switch {
	case op.carried():
		op.c.trips.Record(op.c.clock.Monotonic() - op.sent)
		op.decidedLocked()
	case op.hopeless():
		op.outvotedLocked()
	default:
		op.mu.Unlock()
	}
}

// mine reports whether the present proposal is of this round's members.
func (op *round) mine() bool {
	return op.proposal.Origin == op.ballot || op.proposedAt(op.proposal.Origin) >= 0
}

// decidedLocked continues when a quorum has accepted. It unlocks mu.
func (op *round) decidedLocked() {
	mine := op.mine()
	if !mine || len(op.proposal.Update) == 0 {
		op.own = nil // any of them that was not decided before this ballot is void
	}
	switch {
	case len(op.proposal.Update) > 0 && mine:
		op.commitLocked(op.level)
	case len(op.proposal.Update) > 0:
		op.commitLocked(plainLevel(op.serial))
	default:
		op.settledLocked(op.ballot, op.prior, op.history)
		if op.superseding {
			op.superseding = false
			op.againLocked(CauseQueue, 0)
			return
		}
		op.concludeLocked(op.outcomes, nil)
	}
}

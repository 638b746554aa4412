package paxos

import (
	"cqld/coordinator"
	"cqld/internal/guard"
	"cqld/ring"
	"cqld/row"
)

// question is the part of the round's state that is needed to evaluate the conditions. They are evaluated without the
// round's mutex.
type question struct {
	c        *Proposer
	members  []questioned
	cmd      *row.ReadCommand
	disjoint bool
	page     []byte
	ballot   Ballot
	span     int64
	maySplit bool // members may wait for the next round
}

// questioned is one member; the conditions of members that have been answered are not evaluated.
type questioned struct {
	m        *member
	answered bool
}

// verdict is the result of the conditions.
type verdict struct {
	outcomes []outcome
	update   *row.Mutation // all changes to be made; nil means none
	tooMuch  bool          // the rows do not fit into one round
	cut      bool          // the changes do not fit: members without an outcome go to the next round
}

// questionLocked returns the question of the present attempt.
func (op *round) questionLocked(page []byte) question {
	q := question{c: op.c, cmd: op.cmd, disjoint: op.disjoint, page: page, ballot: op.ballot, span: op.span(),
		maySplit: len(op.own) == 0}
	q.members = make([]questioned, len(op.members))
	for i, m := range op.members {
		q.members[i] = questioned{m, m.answered}
	}
	return q
}

// takeLocked adds a verdict to the round.
func (op *round) takeLocked(a *verdict) {
	op.outcomes = a.outcomes
	if a.cut {
		op.putBackAfter(len(a.outcomes) - 1)
	}
}

// ask evaluates the members' conditions in their order, each on a page that includes the changes of the members before
// it, and merges the changes to be made.
func (q *question) ask() (a verdict) {
	j, more := NewJoined(q.cmd, q.disjoint, q.page)
	if more && len(q.members) > 1 {
		a.tooMuch = true
		return a
	}
	a.outcomes = make([]outcome, len(q.members))
	if err := short(q.cmd, q.page, more); err != nil {
		failAll(a.outcomes, err)
		return a
	}
	stamp := q.ballot.Micros - q.span
	for i, asked := range q.members {
		m, o := asked.m, &a.outcomes[i]
		if !m.reads() {
			stamp += 2
		}
		if asked.answered {
			continue
		}
		if o.page, o.err = j.PageOf(m.req.Command); o.err != nil || m.reads() {
			continue
		}
		change, applies, err := m.update(q.c.guard, o.page, stamp)
		if o.applied, o.err = applies && err == nil, err; !o.applied || change == nil || change.Empty() {
			continue
		}
		o.changes = true
		switch {
		case a.update == nil && i == len(q.members)-1:
			a.update = change
			continue
		case a.update == nil:
			a.update = new(row.Mutation)
			a.update.Reset(change.Table, change.Key)
			a.update.Grow(min(len(q.members)*change.Size(), q.c.limits.RoundBytes) + change.Size())
		}
		a.update.Append(change)
		if i == len(q.members)-1 {
			break
		}
		if o.err = j.Apply(m.req.Command, change); o.err != nil {
			failAll(a.outcomes, o.err)
			return verdict{outcomes: a.outcomes}
		}
		if a.update.Size() > q.c.limits.RoundBytes && q.maySplit {
			a.outcomes, a.cut = a.outcomes[:i+1], true
			break
		}
	}
	return a
}

// update evaluates the member's condition. The condition is code of the request: a panic in it fails only that member.
func (m *member) update(g *guard.Guard, page []byte, stamp int64) (change *row.Mutation, applies bool, err error) {
	if g != nil {
		defer g.Recover("condition", func(panicked error) { change, applies, err = nil, false, panicked })
	}
	return m.req.Update(page, stamp)
}

// failAll fails every member: the round cannot be executed.
func failAll(outcomes []outcome, err error) {
	for i := range outcomes {
		outcomes[i] = outcome{err: err}
	}
}

// allFail reports whether every member's update returned an error. Members with an earlier proposal that may be decided
// are still answered with an unknown outcome.
func (op *round) allFail() bool {
	for i, m := range op.members {
		if !m.answered && op.outcomes[i].err == nil {
			return false
		}
	}
	for i := range op.outcomes {
		if op.outcomes[i].err != nil {
			op.outcomes[i].err = op.errorOf(i, op.outcomes[i].err)
		}
	}
	return true
}

// nothingApplies reports whether no member's condition holds.
func (op *round) nothingApplies() bool {
	for i := range op.outcomes {
		if op.outcomes[i].applied {
			return false
		}
	}
	return true
}

// putBackAfter moves the members after i to the next round, unless a proposal of theirs is in doubt.
func (op *round) putBackAfter(i int) bool {
	if len(op.own) > 0 {
		return false
	}
	var rest []*member
	for _, m := range op.members[i+1:] {
		if !m.answered {
			m.failed = false // it must wait again
			rest = append(rest, m)
		}
	}
	op.c.queues.putBack(op.partition, rest)
	op.members = op.members[:i+1]
	return true
}

// splitLocked restarts with the first half of the members, because the rows of all members are too large for one read.
// It unlocks mu.
func (op *round) splitLocked() {
	if !op.putBackAfter((len(op.members)+1)/2 - 1) {
		op.supersedeLocked()
		return
	}
	if len(unanswered(op.members)) == 0 {
		op.concludeLocked(nil, nil)
		return
	}
	op.enroll()
	op.againLocked(CauseQueue, 0)
}

// concludeLocked answers all members, with outcomes or with the error that a failure has for each of them, and starts
// the next round of the partition. It unlocks mu.
func (op *round) concludeLocked(outcomes []outcome, err error) {
	if err != nil {
		outcomes = make([]outcome, len(op.members))
		for i := range outcomes {
			outcomes[i].err = op.errorOf(i, err)
		}
	}
	cause := op.causeOf()
	op.stageLocked(StageNone)
	op.over = true
	op.disarmLocked()
	op.answerLocked(outcomes, nil, cause)
	op.leave()
}

// concludeDecidedLocked answers all members after the commit. It unlocks mu.
func (op *round) concludeDecidedLocked(err error) {
	op.stageLocked(StageNone)
	op.over = true
	op.disarmLocked()
	op.answerLocked(op.outcomes, err, CauseCommit)
	op.leave()
}

// answerLocked gives every member its outcome, or err if it is not nil: even members that changed nothing may have
// read changes of others in the round. cause names the stage, for time-outs. It unlocks mu.
func (op *round) answerLocked(outcomes []outcome, err error, cause Cause) {
	type answer struct {
		m *member
		o outcome
	}
	answers := make([]answer, 0, len(op.members))
	for i, m := range op.members {
		if m.answered {
			continue
		}
		m.answered = true
		o := outcomes[i]
		if err != nil {
			o.err = err
		}
		answers = append(answers, answer{m, o})
	}
	if n := len(answers); n > 1 {
		op.c.counts.shared.Add(uint64(n))
	}
	if len(answers) > 0 {
		op.c.counts.rounds.Add(1)
	}
	op.mu.Unlock()
	op.c.queues.answered(len(answers))
	for _, a := range answers {
		if a.o.err != nil {
			op.c.countFailure(a.o.err, cause)
			a.m.done(false, a.o.page, a.o.err)
			continue
		}
		a.m.done(a.o.applied, a.o.page, nil)
	}
}

// leave starts the next round of the partition.
func (op *round) leave() {
	op.left.Store(true)
	op.endTurn()
	if next := op.c.queues.leave(op.partition, &op.c.limits); next != nil {
		// Not on this stack: its depth would be the length of the queue.
		op.c.clock.After(0, op.c.newRound(op.partition, next).begin)
	}
}

// tracer receives the events of the round for all traced members; nil means that none is traced.
func (op *round) tracer() coordinator.Trace {
	return coordinator.TracesOf(op.members, func(m *member) coordinator.Trace { return m.req.Trace })
}

func (op *round) trace(activity string) {
	coordinator.AddTrace(op.tracer(), op.c.view.Self(), activity)
}

func (op *round) traceNode(activity string, node ring.NodeID) {
	coordinator.AddNodeTrace(op.tracer(), op.c.view.Self(), activity, node)
}

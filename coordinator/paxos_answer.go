package coordinator

import (
	"cqld/coordinator/paxos"
	"cqld/ring"
	"cqld/row"
)

// ask asks each member's condition, one after the other, each with what the ones before it change, and
// joins the changes to be made; nil when there are none. tooMuch says that the rows, or the changes, are more
// than fit into one round.
func (op *casRound) ask(page []byte, ballot Ballot) (update *row.Mutation, tooMuch bool) {
	j, more := paxos.NewJoined(op.cmd, op.disjoint, page)
	if more && len(op.members) > 1 {
		return nil, true
	}
	op.outcomes = make([]casOutcome, len(op.members))
	stamp := ballot.Micros - op.span()
	for i, m := range op.members {
		o := &op.outcomes[i]
		if !m.reads() {
			stamp += 2
		}
		if m.answered {
			continue
		}
		if o.page, o.err = j.PageOf(m.req.Command); o.err != nil || m.reads() {
			continue
		}
		change, applies, err := m.req.Update(o.page, stamp)
		if o.applied, o.err = applies && err == nil, err; !o.applied || change == nil || change.Empty() {
			continue
		}
		o.changes = true
		switch {
		case update == nil && i == len(op.members)-1:
			update = change
			continue
		case update == nil:
			update = new(row.Mutation)
			update.Reset(change.Table, change.Key)
			update.Grow(min(len(op.members)*change.Size(), op.c.limits.CASRoundBytes) + change.Size())
		}
		update.Append(change)
		if i == len(op.members)-1 {
			break
		}
		if o.err = j.Lay(m.req.Command, change); o.err != nil {
			op.failAll(o.err)
			return nil, false
		}
		if update.Size() > op.c.limits.CASRoundBytes && op.putBackAfter(i) {
			op.outcomes = op.outcomes[:i+1]
			break
		}
	}
	return update, false
}

// failAll makes every member fail: the round cannot be carried out.
func (op *casRound) failAll(err error) {
	for i := range op.outcomes {
		op.outcomes[i] = casOutcome{err: err}
	}
}

// allFail says whether every member's update erred. Those with an earlier proposal that may be decided
// still are told that nobody knows.
func (op *casRound) allFail() bool {
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

// nothingApplies says whether no member's condition holds.
func (op *casRound) nothingApplies() bool {
	for i := range op.outcomes {
		if op.outcomes[i].applied {
			return false
		}
	}
	return true
}

// putBackAfter lets the members after i wait for the next round, unless a proposal of theirs is in doubt.
func (op *casRound) putBackAfter(i int) bool {
	if len(op.own) > 0 {
		return false
	}
	var rest []*casMember
	for _, m := range op.members[i+1:] {
		if !m.answered {
			rest = append(rest, m)
		}
	}
	op.c.casLines.putBack(op.line, rest)
	op.members = op.members[:i+1]
	return true
}

// splitLocked begins again with the first half of the members: the rows of all are too large to be read
// at once. It frees mu.
func (op *casRound) splitLocked() {
	if !op.putBackAfter((len(op.members)+1)/2 - 1) {
		op.supersedeLocked()
		return
	}
	op.enroll()
	op.againLocked(0)
}

// concludeLocked answers all members, with outcomes or with what a failure means to them, and lets the
// next round of the partition begin. It frees mu.
func (op *casRound) concludeLocked(outcomes []casOutcome, err error) {
	if err != nil {
		outcomes = make([]casOutcome, len(op.members))
		for i := range outcomes {
			outcomes[i].err = op.errorOf(i, err)
		}
	}
	op.over = true
	op.disarmLocked()
	op.answerLocked(outcomes, nil)
	op.leave()
}

// concludeDecidedLocked answers all members after the commit. It frees mu.
func (op *casRound) concludeDecidedLocked(err error) {
	op.over = true
	op.disarmLocked()
	op.answerLocked(op.outcomes, err)
	op.leave()
}

// answerLocked gives every member its outcome, or err when it is not nil: even those who changed nothing
// may have seen what others of the round did. It frees mu.
func (op *casRound) answerLocked(outcomes []casOutcome, err error) {
	type answer struct {
		m *casMember
		o casOutcome
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
		op.c.counts.casShared.Add(uint64(n))
	}
	op.c.counts.casRounds.Add(1)
	op.mu.Unlock()
	op.c.casLines.answered(len(answers))
	for _, a := range answers {
		if a.o.err != nil {
			op.countFailure(a.o.err)
			a.m.done(false, a.o.page, a.o.err)
			continue
		}
		a.m.done(a.o.applied, a.o.page, nil)
	}
}

// leave lets the next round of the partition begin.
func (op *casRound) leave() {
	op.endTurn()
	if next := op.c.casLines.leave(op.line, &op.c.limits); next != nil {
		// Not on this stack: a long line would be a deep one.
		op.c.clock.After(0, op.c.casRound(op.line, next).begin)
	}
}

// tracer tells the story of the round to all members that are traced; nil when none is.
func (op *casRound) tracer() Trace {
	traced := false
	for _, m := range op.members {
		traced = traced || m.req.Trace != nil
	}
	if !traced {
		return nil
	}
	members := op.members
	return func(source ring.NodeID, activity string) {
		for _, m := range members {
			trace(m.req.Trace, source, activity)
		}
	}
}

func (op *casRound) trace(activity string) { trace(op.tracer(), op.c.view.Self(), activity) }

func (op *casRound) traceNode(activity string, node ring.NodeID) {
	traceNode(op.tracer(), op.c.view.Self(), activity, node)
}

package paxos

import (
	"slices"

	"cqld/internal/guard"
	"cqld/paxos/ballot"
	"cqld/row"
)

// question is the part of the round's state that is needed to evaluate the conditions. They are evaluated without the
// lock of the round.
type question struct {
	c        *Proposer
	members  []questioned
	cmd      *row.ReadCommand
	disjoint bool
	page     []byte
	ballot   ballot.Ballot
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

// question returns the question of the present attempt.
func (m *machine) question(page []byte) *question {
	q := &question{
		c:        m.c,
		members:  make([]questioned, len(m.members)),
		cmd:      m.cmd,
		disjoint: m.disjoint,
		page:     page,
		ballot:   m.ballot,
		span:     m.span(),
		// Members of a proposal in doubt must stay together, because its outcomes are indexed like the members.
		maySplit: len(m.own) == 0,
	}
	for i, x := range m.members {
		// The flag is copied, because the round may answer a member at its deadline while the conditions are
		// evaluated.
		q.members[i] = questioned{x, x.answered}
	}
	return q
}

// accept adds a verdict to the round.
func (m *machine) accept(a *verdict) {
	m.outcomes = a.outcomes
	if a.cut {
		// The members after the last outcome go to the next round, at the head of the queue.
		m.putBackAfter(len(a.outcomes) - 1)
	}
}

// ask evaluates the members' conditions in their order, each on a page that includes the changes of the members before
// it, and merges the changes to be made.
func (q *question) ask() (a verdict) {
	j, more := NewJoined(q.cmd, q.disjoint, q.page)
	// The page ended before all rows that the members need. Fewer members need fewer rows.
	if more && len(q.members) > 1 {
		a.tooMuch = true
		return a
	}
	a.outcomes = make([]outcome, len(q.members))
	if err := short(q.cmd, q.page, more); err != nil {
		failAll(a.outcomes, err)
		return a
	}
	// Each change has two timestamps. The last ones end at the ballot itself.
	stamp := q.ballot.Micros - q.span
	for i, asked := range q.members {
		m, o := asked.m, &a.outcomes[i]
		if !m.reads() {
			stamp += 2
		}
		// An answered member keeps its reserved timestamps, so that the timestamps of the others do not change.
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
		// The only change of the round needs no copy.
		case a.update == nil && i == len(q.members)-1:
			a.update = change
			continue
		case a.update == nil:
			a.update = new(row.Mutation)
			a.update.Reset(change.Table, change.Key)
			// The size is estimated from the first change, because the changes of a round are often alike.
			a.update.Grow(min(len(q.members)*change.Size(), q.c.limits.RoundBytes) + change.Size())
		}
		a.update.Append(change)
		if i == len(q.members)-1 {
			// No member after it reads the change.
			break
		}
		if o.err = j.Apply(m.req.Command, change); o.err != nil {
			// The pages of the members after this one would be wrong.
			failAll(a.outcomes, o.err)
			return verdict{outcomes: a.outcomes}
		}
		if a.update.Size() > q.c.limits.RoundBytes && q.maySplit {
			// A single change may be larger: it is proposed alone.
			a.outcomes, a.cut = a.outcomes[:i+1], true
			break
		}
	}
	return a
}

// update evaluates the member's condition. The condition is code of the request: a panic in it fails only that member.
func (m *member) update(g *guard.Guard, page []byte, stamp int64) (change *row.Mutation, applies bool, err error) {
	if g != nil {
		// Without a guard, as in the simulation, the panic ends the program.
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

// nothingApplies reports whether no member's condition holds.
func nothingApplies(outcomes []outcome) bool {
	return !slices.ContainsFunc(outcomes, func(o outcome) bool { return o.applied })
}

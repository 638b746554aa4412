package paxos

import (
	"cmp"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// group contains the members of a round, and answers them.
type group struct {
	c         *Proposer
	owner     *round // the round of the members
	partition string
	table     *schema.Table
	serial    ring.Consistency
	level     ring.Consistency // of the commit
	timeout   time.Duration
	cmd       *row.ReadCommand // reads the rows of all members
	disjoint  bool

	now   time.Duration // of the event; monotonic
	phase roundPhase
	alarm alarm

	members []*member
	own     doubts // proposals of this round with an unknown outcome
	over    bool   // all members have been answered, and the next round of the partition starts
	stage   Stage
	staged  time.Duration // when the round entered the stage
	delay   Cause         // why the last attempt ended
}

// enroll sets the members, and the fields that depend on all of them.
func (g *group) enroll(members []*member) {
	g.members = members
	first := members[0]
	g.table, g.serial, g.level, g.timeout = first.table, first.req.Serial, first.req.Consistency, first.req.Timeout
	found := false
	commands := make([]*row.ReadCommand, len(members))
	for i, m := range members {
		// The store is atomic, because a cancellation reads round in another goroutine.
		m.round.Store(g.owner)
		commands[i] = m.req.Command
		// The round waits for replicas as long as its most impatient member.
		g.timeout = min(g.timeout, m.req.Timeout)
		// Reads do not depend on the level of the commit, so the first change determines it.
		if !found && !m.reads() {
			g.level, found = m.req.Consistency, true
		}
	}
	g.cmd, g.disjoint = Join(commands)
}

// span returns the number of timestamps that the round needs: two for each change.
func (g *group) span() (n int64) {
	for _, m := range g.members {
		if !m.reads() {
			n += 2
		}
	}
	// A round of reads also needs a ballot, and a ballot is a timestamp.
	return max(n, 1)
}

// unanswered returns the members that have not been answered.
func (g *group) unanswered() []*member {
	out := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		if !m.answered {
			out = append(out, m)
		}
	}
	return out
}

// left returns the number of members that have not been answered.
func (g *group) left() (n int) {
	for _, m := range g.members {
		if !m.answered {
			n++
		}
	}
	return n
}

// tracer receives the events of the round for all traced members; nil means that none is traced.
func (g *group) tracer() coordinator.Trace {
	return coordinator.TracesOf(g.members, func(m *member) coordinator.Trace { return m.req.Trace })
}

// note adds a line to the traces of the members.
func (g *group) note(out []effect, text string) []effect {
	trace := g.tracer()
	// Without a trace the effect would be useless.
	if trace == nil {
		return out
	}
	return append(out, effect{kind: effectNote, text: text, trace: trace})
}

// enterStage makes the round enter a stage, and adds the time since it entered the previous stage to the sum of that
// stage.
func (g *group) enterStage(s Stage, now time.Duration) {
	// The time before the round began belongs to no stage.
	if g.stage != StageNone {
		g.c.counts.stageTimes[g.stage].Add(int64(now - g.staged))
	}
	g.stage, g.staged = s, now
}

// cause returns the cause of a time-out in the round's present stage. Between attempts it is the cause of the last
// one's failure.
func (g *group) cause() Cause {
	switch g.stage {
	case StagePrepare:
		return CausePrepare
	case StageRead:
		return CauseRead
	case StagePropose:
		return CausePropose
	case StageCommit:
		return CauseCommit
	}
	return cmp.Or(g.delay, CauseQueue)
}

// deadlineOf returns the deadline of member i. Two kinds of members have at least the time that a request waits for
// replicas:
//   - A member with a proposal in doubt: its outcome is worth more than a timely answer.
//   - A member none of whose attempts has failed. The contention timeout limits attempts. It must not end a request
//     that has only waited for other rounds or for a turn, or whose round has completed another proposal.
func (g *group) deadlineOf(i int) time.Duration {
	m := g.members[i]
	if !m.failed || g.own.of(i) != nil {
		return max(m.deadline, m.entered+m.req.Timeout)
	}
	return m.deadline
}

// latestDeadline returns the latest deadline of the members.
func (g *group) latestDeadline() (at time.Duration) {
	for i, m := range g.members {
		if !m.answered {
			// The members share the wait, so the most patient one determines it.
			at = max(at, g.deadlineOf(i))
		}
	}
	return at
}

// lastTimeout returns the time at which the last member stops waiting for replicas.
func (g *group) lastTimeout() (at time.Duration) {
	for _, m := range g.members {
		at = max(at, m.entered+m.req.Timeout)
	}
	return at
}

// errorOf returns the error for member i when the round fails: unknown if an earlier proposal with a change of the
// member may still be decided.
func (g *group) errorOf(i int, err error, required int) error {
	if p := g.own.of(i); p != nil {
		return p.unknown(g.serial, required)
	}
	if g.members[i].reads() {
		// A read changes nothing, so it is never unknown by itself.
		return err
	}
	return asWrite(err)
}

// answerSome answers the members for which failure returns an error, and reports whether any are left.
func (g *group) answerSome(out []effect, failure func(i int) error) (_ []effect, left bool) {
	var answers []answer
	for i, m := range g.members {
		if m.answered {
			continue
		}
		err := failure(i)
		if err == nil {
			left = true
			continue
		}
		g.mark(m)
		answers = append(answers, answer{member: m, outcome: outcome{err: err}})
	}
	if len(answers) == 0 {
		return out, left
	}
	// The round is counted once, with its last answers.
	if !left {
		g.c.counts.rounds.Add(1)
	}
	return append(out, effect{kind: effectAnswer, answers: answers, cause: g.cause()}), left
}

// answerAll gives every member its outcome, or err if it is not nil: even members that changed nothing may have read
// changes of others in the round. cause names the stage, for time-outs.
func (g *group) answerAll(out []effect, outcomes []outcome, err error, cause Cause) []effect {
	answers := make([]answer, 0, len(g.members))
	for i, m := range g.members {
		if m.answered {
			continue
		}
		g.mark(m)
		o := outcomes[i]
		if err != nil {
			// Even a condition that did not hold was evaluated on changes of other members, which are no longer
			// certain.
			o.err = err
		}
		answers = append(answers, answer{member: m, outcome: o})
	}
	if len(answers) == 0 {
		return out
	}
	if n := len(answers); n > 1 {
		// A member that was answered before did not share the outcome.
		g.c.counts.shared.Add(uint64(n))
	}
	g.c.counts.rounds.Add(1)
	return append(out, effect{kind: effectAnswer, answers: answers, cause: cause})
}

// mark records that a member is answered. The member stops counting as in flight before its client receives the
// answer.
func (g *group) mark(m *member) {
	invariant.Check(!m.answered, "paxos: a member is answered twice")
	m.answered = true
	g.c.queues.answered(1)
}

// putBackAfter moves the members after i to the next round, unless a proposal of theirs is in doubt.
func (g *group) putBackAfter(i int) bool {
	// The outcomes of proposals in doubt are indexed like the members, so none may be removed.
	if len(g.own) > 0 {
		return false
	}
	var rest []*member
	for _, m := range g.members[i+1:] {
		if !m.answered {
			m.failed = false // it must wait again
			rest = append(rest, m)
		}
	}
	g.c.queues.putBack(g.partition, rest)
	g.members = g.members[:i+1]
	return true
}

// allFail reports whether every member's update returned an error. Members with an earlier proposal that may be decided
// are still answered with an unknown outcome.
func (g *group) allFail(outcomes []outcome, required int) bool {
	for i, m := range g.members {
		if !m.answered && outcomes[i].err == nil {
			return false
		}
	}
	for i := range outcomes {
		if outcomes[i].err != nil {
			// No condition could be evaluated in this attempt, but an earlier one may have proposed the change.
			outcomes[i].err = g.errorOf(i, outcomes[i].err, required)
		}
	}
	return true
}

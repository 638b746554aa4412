package paxos

import (
	"errors"
	"slices"
	"time"

	"cqld/coordinator"
)

// A proposal is in doubt when some acceptors may have accepted it and the coordinator does not know that a majority
// has: an accept was refused, failed, or got no answer in time. The members that have a part in it are answered only
// when its outcome is known. The next attempt of the round looks it up: its prepare asks a majority at a later ballot,
// and then either completes the proposal or has something else decided, which makes it void. Attempts go on, with
// pauses, until the members' time is over. CASUnknown is left for when no majority could be asked by then.
//
// Let q be a proposal of this round, made by this coordinator n under the ballot q (its origin), and let the promises
// of a majority at a ballot b > q be known: their latest commit C, their floor F, and the proposal in progress.
//
//  1. The decided changes of a partition form a chain. Each proposal names the latest change decided before it (Prior)
//     and the history up to there: its proposer had promises of a majority, which tell of everything that was decided
//     before (or, without promises, it had settled the previous ballot itself, and nothing was decided since;
//     previous.go). What was decided up to a floor may be forgotten; then the history begins at the floor.
//  2. By 1, the history of C lists every coordinator of which a change with an origin after Since was decided before C.
//     Another proposer may have completed q under a later ballot; it kept the origin, so the history shows q all the
//     same.
//  3. q is decided when it is the origin of C, or is listed in the history of C.
//  4. q is void when q < C, q > Since, and n is listed with an earlier origin or not at all. By 2 it was not decided
//     before C. Nor can it be decided later: completing q needs promises of a majority at a ballot after C,
//     of which one acceptor shows C, and q < C is then not in progress; at a ballot before C it would have been
//     decided before C, and be listed.
//  5. q is void when n is listed with a later origin q'. A coordinator has one round of a partition at a time, so q' is
//     of the same round. This round proposed q' after promises of a majority at q' > q that showed q neither decided
//     nor in progress. Completing q at a ballot before q' needs a majority that accepts, of which one acceptor has
//     promised q', and refuses or would have shown it; at a ballot after q' it needs promises, which show q' or a
//     completion of it, as that is decided.
//  6. q is also void when this round has anything else decided under a ballot b' > q, of which the promises showed q
//     neither decided nor in progress: another's proposal, an empty one, or a new one of its own. That is the
//     argument of 5 with b' in place of q'.
//  7. Promises alone do not make q void, even when they do not show it: an acceptor outside the majority may hold it,
//     and a later proposer may meet and complete it. So q stays in doubt (open) until 3, 4, 5 or 6 applies.
//  8. When the floor is not before q, and no history tells, q may have been decided and forgotten. When more than
//     HistoryMax coordinators had changes decided after q, the entry of n may have been dropped. Both leave Since at
//     or after q, and the outcome is lost: coordinator.CASUnknown. A truncation removes origins; Since is then C.
//
// A change of the ring does not matter: promises, acceptances and commits count among the replicas before and after it
// (previous.go), so majorities meet, and the history moves with the state. Rounds at SERIAL and at LOCAL_SERIAL of one
// partition do not meet each other's majorities; what the one concludes holds only among its own kind, as for all that
// conditions read.

// doubtful is an attempt of this round that has proposed a change, and whose outcome is not known.
type doubtful struct {
	proposal Proposal
	outcomes []outcome
	refused  bool // by all who were asked
	accepted int  // acceptances that are known; fewer than decide
}

// proposedAt is which of the round's proposals that are in doubt has the origin; -1 when none.
func (op *round) proposedAt(origin Ballot) int {
	return slices.IndexFunc(op.own, func(p doubtful) bool { return p.proposal.Origin == origin })
}

// doubtLocked notes that the present proposal may have been accepted by some. All may have refused it: but a
// message that came twice may have been accepted before it was refused, so the next promises are asked.
func (op *round) doubtLocked() {
	if op.phase != phaseAccepting || len(op.proposal.Update) == 0 {
		return
	}
	accepted := min(op.received(), op.voters.required()-1)
	if at := op.proposedAt(op.proposal.Origin); at >= 0 { // it was in progress, and so had been accepted by some
		op.own[at].accepted, op.own[at].refused = accepted, false
	} else if op.proposal.Origin == op.ballot {
		op.own = append(op.own, doubtful{op.proposal, op.outcomes, !op.maybeAccepted(), accepted})
	}
}

// resolve finds out, from promises of a majority, what became of the round's proposals that are in doubt. It removes
// those that are void. decided is the place of one that is decided, or -1; lost says that some cannot be told.
func (op *round) resolve(commit *Proposal, floor Ballot) (decided int, lost bool) {
	kept := op.own[:0]
	decided = -1
	for _, p := range op.own {
		q := p.proposal.Origin
		v := FateOf(q, commit, floor)
		if op.c.unsafe.NoLookup && v != Open && q != commit.Origin && !q.After(commit.Prior) {
			v = Lost
		}
		switch v {
		case Void:
			op.c.counts.lookedUp.Add(1)
			continue
		case Decided:
			op.c.counts.lookedUp.Add(1)
			decided = len(kept)
		case Lost:
			lost = true
		}
		kept = append(kept, p)
	}
	op.own = kept
	return decided, lost
}

// inDoubt is the latest proposal in doubt that has a change of member i; nil when there is none.
func (op *round) inDoubt(i int) *doubtful {
	for at := range slices.Backward(op.own) {
		if p := &op.own[at]; p.outcomes[i].changes && !p.refused {
			return p
		}
	}
	return nil
}

// deadlineOf is how long member i tries. One with a proposal in doubt goes on for as long as a request waits for
// replicas, when that is longer: its outcome is worth more than an answer in time.
func (op *round) deadlineOf(i int) time.Duration {
	m := op.members[i]
	if op.inDoubt(i) != nil && !op.c.unsafe.NoLookup {
		return max(m.deadline, m.entered+m.req.Timeout)
	}
	return m.deadline
}

// latestDeadline is when the last member's time is over.
func (op *round) latestDeadline() (at time.Duration) {
	for i, m := range op.members {
		if !m.answered {
			at = max(at, op.deadlineOf(i))
		}
	}
	return at
}

// failLocked ends the round with an error for all members but those with a proposal in doubt and time left. They look
// its outcome up by another attempt. It frees mu.
func (op *round) failLocked(err error) {
	if len(op.own) == 0 || op.c.unsafe.NoLookup {
		op.concludeLocked(nil, err)
		return
	}
	op.phase = phaseIdle
	op.attempt++ // the answers to this one are of no interest any more
	pause := op.pause()
	now := op.c.clock.Monotonic()
	op.answerSomeLocked(func(i int) error {
		if op.inDoubt(i) != nil && now+pause < op.deadlineOf(i) {
			return nil
		}
		return op.errorOf(i, err)
	})
	if op.over {
		op.mu.Unlock()
		return
	}
	op.againLocked(pause)
}

// lostLocked answers the members whose proposals' outcomes cannot be learned, and begins again with the others. It frees
// mu.
func (op *round) lostLocked(commit *Proposal, floor Ballot) {
	isLost := func(p doubtful) bool {
		return FateOf(p.proposal.Origin, commit, floor) == Lost || op.c.unsafe.NoLookup
	}
	op.phase = phaseIdle
	op.attempt++
	op.answerSomeLocked(func(i int) error {
		for _, p := range op.own {
			if p.outcomes[i].changes && isLost(p) {
				return op.unknown(&p)
			}
		}
		return nil
	})
	if op.over {
		op.mu.Unlock()
		return
	}
	op.own = slices.DeleteFunc(op.own, isLost)
	op.againLocked(0)
}

// supersedeLocked proposes nothing, which makes the proposals in doubt void when it is decided, and then begins again.
// It frees mu.
func (op *round) supersedeLocked() {
	op.superseding = true
	op.proposeLocked(op.ballot, nil)
}

// expireLocked answers the members that would have tried for too long at a time.
func (op *round) expireLocked(at time.Duration) {
	op.answerSomeLocked(func(i int) error {
		if at < op.deadlineOf(i) {
			return nil
		}
		return op.errorOf(i, op.timedOut())
	})
}

// answerSomeLocked answers the members for which failure returns an error. When none is left the round is over, and
// the next one of the partition begins. It frees mu meanwhile.
func (op *round) answerSomeLocked(failure func(i int) error) {
	left := false
	var answers []func()
	for i, m := range op.members {
		if m.answered {
			continue
		}
		err := failure(i)
		if err == nil {
			left = true
			continue
		}
		m.answered = true
		op.countFailure(err)
		answers = append(answers, func() { m.done(false, nil, err) })
	}
	if len(answers) == 0 {
		return
	}
	if op.over = !left; op.over {
		op.stageLocked(StageNone)
		op.c.counts.rounds.Add(1)
	}
	op.disarmLocked()
	op.mu.Unlock()
	op.c.queues.answered(len(answers))
	for _, f := range answers {
		f()
	}
	if !left {
		op.leave()
	}
	op.mu.Lock()
}

// countFailure counts the error that a member is answered with.
func (op *round) countFailure(err error) {
	var timeout *coordinator.WriteTimeout
	var unknown *coordinator.CASUnknown
	switch {
	case errors.As(err, &unknown):
		op.c.counts.writeTimeouts.Add(1)
		op.c.counts.unknown.Add(1)
	case errors.As(err, &timeout) && timeout.Type == coordinator.WriteCAS:
		op.c.counts.writeTimeouts.Add(1)
	}
}

// errorOf is the error for member i when the round fails: unknown, when an earlier proposal with a change of
// its may still be decided.
func (op *round) errorOf(i int, err error) error {
	if p := op.inDoubt(i); p != nil {
		return op.unknown(p)
	}
	if op.members[i].reads() {
		return err
	}
	return asWrite(err)
}

// unknown is the error of a change whose proposal stays in doubt. Its count is that of the acceptances of the
// proposal.
func (op *round) unknown(p *doubtful) error {
	return &coordinator.CASUnknown{Consistency: op.serial, Received: p.accepted, BlockFor: op.voters.required()}
}

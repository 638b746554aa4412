package paxos

import (
	"slices"
	"time"

	"cqld/coordinator"
)

// A proposal is in doubt if some acceptors may have accepted it and the coordinator does not know that a majority has:
// an accept was refused, failed, or was not answered in time. The members with a change in it are answered only when
// its outcome is known. The next attempt of the round looks the outcome up: its prepare asks a majority at a later
// ballot, and then either completes the proposal or has something else decided, which makes it void. The round makes
// further attempts, with pauses, until the members' time is over. CASUnknown is returned only if no majority could be
// asked by then.
//
// Let q be a proposal of this round, made by this coordinator n under the ballot q (its origin), and let the promises
// of a majority at a ballot b > q be known: their latest commit C, their low bound F, and the proposal in progress.
//
//  1. The decided changes of a partition form a chain. Each proposal names the latest change decided before it (Prior)
//     and the history up to that change: its proposer had promises of a majority, which include everything that was
//     decided before. (Without promises, the proposer had settled the previous ballot itself, and nothing was decided
//     since; previous.go.) Decisions up to a low bound may be purged; then the history begins at the low bound.
//  2. By 1, the history of C lists every coordinator of which a change with an origin after Since was decided before C.
//     Another proposer may have completed q under a later ballot. It kept the origin, so the history still contains q.
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
//  8. If the low bound is not before q, and no history contains the outcome, q may have been decided and purged. If
//     more than HistoryMax coordinators had changes decided after q, the entry of n may have been dropped. Both leave
//     Since at or after q, and the outcome is lost: coordinator.CASUnknown. A truncation removes origins; Since is then
//     C.
//
// A change of the ring does not affect the proof: promises, acceptances and commits are counted among the replicas
// before and after it (previous.go), so majorities overlap, and the history moves with the state. Rounds at SERIAL and
// at LOCAL_SERIAL of one partition need not overlap; the conclusions of one hold only among rounds of the same level,
// as for all conditions.

// doubtful is an attempt of this round that has proposed a change with an unknown outcome.
type doubtful struct {
	proposal Proposal
	outcomes []outcome
	refused  bool // by all acceptors that were asked
	accepted int  // number of known acceptances, less than a majority
	answered int  // number of natural voters that accepted or refused it, less than a majority
}

// proposedAt returns the index of the round's proposal in doubt that has the origin; -1 means none.
func (op *round) proposedAt(origin Ballot) int {
	return slices.IndexFunc(op.own, func(p doubtful) bool { return p.proposal.Origin == origin })
}

// doubtLocked records that acceptors may have accepted the present proposal. This holds even if all have refused it: a
// duplicated message may have been accepted before its copy was refused. The next promises show the outcome.
func (op *round) doubtLocked() {
	if op.phase != phaseAccepting || len(op.proposal.Update) == 0 {
		return
	}
	most := op.voters.required() - 1
	accepted, answered := min(op.received(), most), min(op.responses(), most)
	if at := op.proposedAt(op.proposal.Origin); at >= 0 { // it was in progress, so some acceptors had accepted it
		p := &op.own[at]
		p.accepted, p.answered, p.refused = accepted, answered, false
	} else if op.proposal.Origin == op.ballot {
		op.own = append(op.own, doubtful{
			proposal: op.proposal,
			outcomes: op.outcomes,
			refused:  !op.maybeAccepted(),
			accepted: accepted,
			answered: answered,
		})
	}
}

// resolve determines the outcomes of the round's proposals in doubt from the promises of a majority. It removes those
// that are void. decided is the index of one that is decided, or -1; lost reports that an outcome cannot be determined.
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

// inDoubt returns the latest proposal in doubt with a change of member i; nil means none.
func (op *round) inDoubt(i int) *doubtful {
	for at := range slices.Backward(op.own) {
		if p := &op.own[at]; p.outcomes[i].changes && !p.refused {
			return p
		}
	}
	return nil
}

// deadlineOf returns the deadline of member i. Two kinds of members have at least the time that a request waits for
// replicas:
//   - A member with a proposal in doubt: its outcome is worth more than a timely answer.
//   - A member of which no attempt has failed. The contention timeout limits attempts. It must not end a request that
//     has only waited for other rounds or for a turn, or whose round has completed another proposal.
func (op *round) deadlineOf(i int) time.Duration {
	m := op.members[i]
	if !m.failed || op.inDoubt(i) != nil && !op.c.unsafe.NoLookup {
		return max(m.deadline, m.entered+m.req.Timeout)
	}
	return m.deadline
}

// latestDeadline returns the latest deadline of the members.
func (op *round) latestDeadline() (at time.Duration) {
	for i, m := range op.members {
		if !m.answered {
			at = max(at, op.deadlineOf(i))
		}
	}
	return at
}

// failLocked ends the round with an error for all members except those with a proposal in doubt and time left. Those
// look its outcome up in another attempt. It unlocks mu.
func (op *round) failLocked(err error) {
	if len(op.own) == 0 || op.c.unsafe.NoLookup {
		op.concludeLocked(nil, err)
		return
	}
	op.phase = phaseIdle
	op.attempt++ // ignore later answers to this attempt
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
	op.againLocked(op.causeOf(), pause)
}

// lostLocked answers the members whose proposals' outcomes cannot be determined, and restarts with the others. It
// unlocks mu.
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
	op.againLocked(CauseQueue, 0)
}

// supersedeLocked proposes an empty change, whose decision makes the proposals in doubt void, and then restarts. It
// unlocks mu.
func (op *round) supersedeLocked() {
	op.superseding = true
	op.proposeLocked(op.ballot, nil)
}

// expireLocked answers the members whose deadline is not after at. No vote of an attempt is open.
func (op *round) expireLocked(at time.Duration) {
	op.answerSomeLocked(func(i int) error {
		switch {
		case at < op.deadlineOf(i):
			return nil
		case op.lacking != nil && op.delay == CauseUnavailable:
			return op.errorOf(i, op.lacking)
		}
		return op.errorOf(i, op.timeoutAfter(op.heard))
	})
}

// answerSomeLocked answers the members for which failure returns an error. If none is left, the round is over, and the
// next one of the partition starts. It unlocks mu temporarily.
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
		op.c.countFailure(err, op.causeOf())
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

// errorOf returns the error for member i when the round fails: unknown if an earlier proposal with a change of the
// member may still be decided.
func (op *round) errorOf(i int, err error) error {
	if p := op.inDoubt(i); p != nil {
		return op.unknown(p)
	}
	if op.members[i].reads() {
		return err
	}
	return asWrite(err)
}

// unknown returns the error of a change whose proposal stays in doubt. Acceptors that refused it have answered, too.
func (op *round) unknown(p *doubtful) error {
	return &coordinator.CASUnknown{
		Consistency: op.serial,
		Received:    p.answered,
		BlockFor:    op.voters.required(),
		Accepted:    p.accepted,
	}
}

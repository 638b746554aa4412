package paxos

import (
	"slices"

	"cqld/coordinator"
	"cqld/paxos/ballot"
	"cqld/ring"
)

// A proposal is in doubt if some acceptors may have accepted it and the coordinator does not know that a majority
// has: an accept was refused, failed, or was not answered in time. The members with a change in it are answered only
// when its outcome is known. The next attempt of the round looks the outcome up: it prepares at a later ballot with a
// majority, and then either completes the proposal or gets another proposal decided, which makes the one in doubt
// void. The round makes further attempts, with pauses, until the members' time is over. CASUnknown is returned only
// if no majority could be asked by then.
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
	proposal ballot.Proposal
	outcomes []outcome
	refused  bool // by all acceptors that were asked
	accepted int  // number of known acceptances, less than a majority
	answered int  // number of natural voters that accepted or refused it, less than a majority
}

// unknown returns the error of a change whose proposal stays in doubt. Acceptors that refused it have answered, too.
func (p *doubtful) unknown(serial ring.Consistency, required int) error {
	return &coordinator.CASUnknown{
		Consistency: serial,
		Received:    p.answered,
		BlockFor:    required,
		Accepted:    p.accepted,
	}
}

// doubts are the proposals of a round that some acceptors may have accepted and that are not known to be decided.
type doubts []doubtful

// proposedAt returns the index of the proposal that has the origin; -1 means none.
func (d doubts) proposedAt(origin ballot.Ballot) int {
	// By origin: a completion of the proposal has another ballot.
	return slices.IndexFunc(d, func(p doubtful) bool { return p.proposal.Origin == origin })
}

// open reports whether any of the proposals was not refused by all acceptors.
func (d doubts) open() bool {
	return slices.ContainsFunc(d, func(p doubtful) bool { return !p.refused })
}

// of returns the latest proposal with a change of member i; nil means none.
func (d doubts) of(i int) *doubtful {
	// A member may be in several proposals, one for each attempt.
	for at := range slices.Backward(d) {
		if p := &d[at]; p.outcomes[i].changes && !p.refused {
			return p
		}
	}
	return nil
}

// without returns the proposals for which out is false.
func (d doubts) without(out func(*doubtful) bool) doubts {
	return slices.DeleteFunc(d, func(p doubtful) bool { return out(&p) })
}

// resolve determines the outcomes of the proposals from the promises of a majority. It removes those that are void.
// decided is the index of one that is decided, or -1; lost reports that an outcome cannot be determined.
func (d *doubts) resolve(c *Proposer, commit *ballot.Proposal, lowBound ballot.Ballot) (decided int, lost bool) {
	// Filtered in place. The machine owns the slice.
	kept := (*d)[:0]
	decided = -1
	for _, p := range *d {
		switch FateOf(p.proposal.Origin, commit, lowBound) {
		case Void:
			c.counts.lookedUp.Add(1)
			// A void proposal is forgotten: its members may propose their changes again.
			continue
		case Decided:
			c.counts.lookedUp.Add(1)
			// At most one proposal is decided: the round proposes again only after promises that showed its earlier
			// proposals neither decided nor in progress.
			decided = len(kept)
		case Lost:
			lost = true
		}
		kept = append(kept, p)
	}
	*d = kept
	return decided, lost
}

package paxos

// HistoryMax bounds the coordinators in a History: with 10 bytes each it adds 320 bytes to what an acceptor stores, at
// most. A proposal in doubt can be told void or decided until so many other coordinators had changes decided.
const HistoryMax = 32

// History says which changes of a partition were decided before a proposal. It has the latest one of each
// coordinator, by its origin, and travels with every proposal and commit. With it a coordinator whose proposal is
// in doubt learns what became of it, however many changes of others were decided since:
//
//	Latest   (node 2, 910) (node 1, 870) (node 3, 640)
//	Since    600: of nodes that are not listed, nothing with an origin after 600 was decided
//
// When a coordinator may conclude what became of its proposal q, and why that is right, stands in doubt.go.
type History struct {
	// Since bounds what is known: a coordinator that is not listed may have had changes with origins up to Since.
	Since Ballot
	// Latest are the origins of the latest decided change of each coordinator, the one decided last first. The slice
	// is never changed.
	Latest []Ballot
}

// With is the history after one more change was decided, the one with the origin. It lists at most HistoryMax
// coordinators.
func (h History) With(origin Ballot) History {
	next := History{Since: h.Since, Latest: make([]Ballot, 0, min(len(h.Latest)+1, HistoryMax))}
	next.Latest = append(next.Latest, origin)
	for _, b := range h.Latest {
		switch {
		case b.Node == origin.Node:
		case len(next.Latest) == HistoryMax:
			next.Since = next.Since.Latest(b)
		default:
			next.Latest = append(next.Latest, b)
		}
	}
	return next
}

// HistoryAfter is the history of what is proposed after the latest decided change and the floor. Up to a floor that is
// later than the change, others may have been decided and forgotten.
func HistoryAfter(commit *Proposal, floor Ballot) History {
	switch {
	case floor.After(commit.Ballot):
		return History{Since: floor}
	case !commit.Ballot.Present():
		return History{}
	case !commit.Origin.Present(): // a truncation has removed what it was
		return History{Since: commit.Ballot}
	}
	return commit.History.With(commit.Origin)
}

// Fate is what became of a proposal.
type Fate uint8

const (
	Open    Fate = iota // nothing later is known to be decided
	Decided             // it is decided
	Void                // it was not decided and never will be
	Lost                // the state does not tell any more
)

// FateOf says what the latest decided change that a majority knows of, and the floor of that majority, tell about a
// proposal that was made under the ballot q, and which its coordinator still waits for.
func FateOf(q Ballot, commit *Proposal, floor Ballot) Fate {
	after := HistoryAfter(commit, floor)
	for _, latest := range after.Latest {
		switch {
		case latest.Node != q.Node:
		case latest == q:
			return Decided
		case latest.After(q):
			return Void // statement 5 in doubt.go
		}
	}
	switch {
	case after.Since.Present() && !q.After(after.Since):
		return Lost
	case q.After(commit.Ballot):
		return Open
	}
	return Void
}

package ballot

// HistoryMax bounds the coordinators in a History: with 10 bytes each, it adds at most 320 bytes to the state of an
// acceptor. The outcome of a proposal in doubt can be determined until so many other coordinators had changes decided.
const HistoryMax = 32

// History lists the changes of a partition that were decided before a proposal: the latest one of each coordinator, by
// its origin. Every proposal and commit contains it. With it, a coordinator determines the outcome of its proposal in
// doubt, however many changes of other coordinators were decided since:
//
//	Latest   (node 2, 910) (node 1, 870) (node 3, 640)
//	Since    600: of nodes that are not listed, nothing with an origin after 600 was decided
//
// doubt.go describes when a coordinator may conclude the outcome of its proposal q, and proves it.
type History struct {
	// Since bounds the knowledge: a coordinator that is not listed may have had changes with origins up to Since
	// decided.
	Since Ballot
	// Latest contains the origin of the latest decided change of each coordinator, the one decided last first. The
	// slice is immutable.
	Latest []Ballot
}

// With returns the history after one more change, the one with the origin, was decided. It lists at most HistoryMax
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

// HistoryAfter returns the history of a proposal after the latest decided change and the low bound. If the low bound is
// later than the change, other changes up to it may have been decided and purged.
func HistoryAfter(commit *Proposal, lowBound Ballot) History {
	switch {
	case lowBound.After(commit.Ballot):
		return History{Since: lowBound}
	case !commit.Ballot.Present():
		return History{}
	case !commit.Origin.Present(): // a truncation has removed the origin
		return History{Since: commit.Ballot}
	}
	return commit.History.With(commit.Origin)
}

package paxos

import (
	"cqld/paxos/ballot"
)

// Fate is the outcome of a proposal.
type Fate uint8

// The fates of a proposal.
const (
	Open    Fate = iota // no later change is known to be decided
	Decided             // it is decided
	Void                // it was not decided and never will be
	Lost                // the state no longer contains the outcome
)

// FateOf returns the outcome of a proposal, made under the ballot q, for which its coordinator still waits. commit is
// the latest decided change that a majority knows, and low bound is the low bound of that majority.
func FateOf(q ballot.Ballot, commit *ballot.Proposal, lowBound ballot.Ballot) Fate {
	// This is the history that the next proposal would contain: it includes the latest decided change itself.
	after := ballot.HistoryAfter(commit, lowBound)
	for _, latest := range after.Latest {
		switch {
		case latest.Node != q.Node:
		// Statement 3 in doubt.go.
		case latest == q:
			return Decided
		case latest.After(q):
			return Void // statement 5 in doubt.go
		}
	}
	switch {
	case after.Since.Present() && !q.After(after.Since):
		// Statement 8.
		return Lost
	case q.After(commit.Ballot):
		// Statement 7: nothing later is known to be decided.
		return Open
	}
	return Void
}

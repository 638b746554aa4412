package paxos

import (
	"math/rand/v2"
	"testing"

	"cqld/paxos/ballot"
	"cqld/ring"
)

// TestHistoriesImplyOutcomes draws chains of decided changes and compares the outcomes that their histories imply with
// the actual ones: a decided proposal is never reported void, nor a void one decided. For up to HistoryMax
// coordinators, the outcome of each coordinator's last change is known.
func TestHistoriesImplyOutcomes(t *testing.T) {
	fates := map[Fate]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		nodes := 1 + r.IntN(2*ballot.HistoryMax)
		var commit ballot.Proposal
		var lowBound ballot.Ballot
		now := int64(1)
		last := map[ring.NodeID]ballot.Ballot{} // the last proposal of each coordinator
		decided := map[ballot.Ballot]bool{}
		for range 200 {
			now += 1 + r.Int64N(50)
			node := ring.NodeID(1 + r.IntN(nodes))
			q := ballot.Ballot{Micros: now, Node: node}
			last[node] = q
			switch r.IntN(10) {
			case 0, 1: // in doubt, and never decided
			case 2: // completed by another coordinator, under a later ballot
				now += 1 + r.Int64N(50)
				commit = ballot.Proposal{Ballot: ballot.Ballot{Micros: now, Node: node + 1}, Origin: q,
					Prior:   commit.Ballot,
					History: ballot.HistoryAfter(&commit, lowBound)}
				decided[q] = true
			default:
				commit = ballot.Proposal{Ballot: q, Origin: q, Prior: commit.Ballot,
					History: ballot.HistoryAfter(&commit, lowBound)}
				decided[q] = true
			}
			if r.IntN(300) == 0 {
				lowBound = ballot.Ballot{Micros: now - r.Int64N(100)}
			}
			for _, q := range last {
				f := FateOf(q, &commit, lowBound)
				fates[f]++
				switch {
				case f == Decided && !decided[q], f == Void && decided[q], f == Open && decided[q]:
					t.Fatalf("seed %d: %v after %+v, low bound %v: fate %d, decided %v", seed, q, commit, lowBound, f,
						decided[q])
				case f == Lost && nodes <= ballot.HistoryMax && q.After(lowBound) &&
					(len(commit.History.Latest) == 0 || !commit.History.Since.Present()):
					t.Fatalf("seed %d: %v after %+v is lost", seed, q, commit)
				}
			}
			if n := len(commit.History.Latest); n > ballot.HistoryMax {
				t.Fatalf("a history of %d coordinators", n)
			}
		}
	}
	for _, f := range []Fate{Open, Decided, Void, Lost} {
		if fates[f] < 100 {
			t.Errorf("fate %d occurred only %d times", f, fates[f])
		}
	}
}

// TestTruncatedStatesImplyNoOutcome shows that a truncation keeps only the ballot of the latest change.
func TestTruncatedStatesImplyNoOutcome(t *testing.T) {
	truncated := ballot.Proposal{Ballot: ballot.Ballot{Micros: 100, Node: 1}}
	for q, want := range map[ballot.Ballot]Fate{{Micros: 100, Node: 1}: Lost, {Micros: 50, Node: 2}: Lost,
		{Micros: 101, Node: 2}: Open} {
		if got := FateOf(q, &truncated, ballot.Ballot{}); got != want {
			t.Errorf("fate of %v is %d, not %d", q, got, want)
		}
	}
}

package acceptor

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
	"cqld/paxos/ballot"
)

// TestStatesRefuseWhatPaxosForbids applies promises and proposals to states that do not allow them.
func TestStatesRefuseWhatPaxosForbids(t *testing.T) {
	state := partitionState{promised: ballotAt(10, 1), commit: ballot.Proposal{Ballot: ballotAt(8, 1)}}
	for name, test := range map[string]struct {
		step func()
		want string
	}{
		"promise of an earlier ballot": {func() { state.checkPromise(ballotAt(10, 2)) },
			"promises a ballot up to"},
		"accept below a promise": {func() { state.checkAccept(&ballot.Proposal{Ballot: ballotAt(9, 1)}) },
			"below its promise"},
		"accept below a low bound": {func() {
			low := partitionState{lowBound: ballotAt(12, 0)}
			low.checkAccept(&ballot.Proposal{Ballot: ballotAt(11, 1)})
		}, "below its promise"},
		"forgotten promise": {func() { state.checkNext(&partitionState{promised: ballotAt(9, 1)}) }, "moved back"},
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, test.step, test.want) })
	}
}

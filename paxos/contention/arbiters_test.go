package contention

import (
	"testing"
	"time"

	"cqld/internal/env"
	"cqld/internal/testclock"
	"cqld/ring"
)

// TestSilentArbitersAreAvoided shows that an arbiter that did not answer is avoided at once, is tried by one request
// after a while, and is used again when it answers.
func TestSilentArbitersAreAvoided(t *testing.T) {
	var k Arbiters
	now := time.Minute
	want := func(what string, node ring.NodeID, usable bool) {
		t.Helper()
		if k.Usable(node, now) != usable {
			t.Errorf("%s: node %d usable: %v", what, node, !usable)
		}
	}
	want("not met yet", 1, true)
	k.Silent(1, now)
	want("just silent", 1, false)
	want("another one", 2, true)
	now += avoided
	want("after a while one request tries it", 1, true)
	want("and no other one", 1, false)
	if k.HeardSince(1, 0) {
		t.Error("an answer of a silent arbiter")
	}
	k.Answered(1, 20*time.Millisecond, now)
	if !k.HeardSince(1, now) || k.HeardSince(1, now+1) || k.HeardSince(2, 0) {
		t.Error("the time of the last answer is wrong")
	}
	want("it answered", 1, true)
	if got := k.Timeout(1, now); got < 80*time.Millisecond || got > 4*20*time.Millisecond {
		t.Errorf("a timeout of %v with answers of 20 ms", got)
	}
	if got := k.Timeout(3, now); got != timeoutLeast {
		t.Errorf("a timeout of %v with an unknown node", got)
	}
}

// TestTurnsOfDeadNodesEnd shows that the next request ends the turn of a dead node, and that a dead node in the queue
// gets no turn.
func TestTurnsOfDeadNodesEnd(t *testing.T) {
	dead := map[ring.NodeID]bool{}
	var clock env.Clock = &testclock.Clock{}
	arbiter := NewArbiter(clock, func(n ring.NodeID) bool { return !dead[n] })
	got := map[ring.NodeID]Turn{}
	ask := func(from ring.NodeID) { arbiter.Ask("a", from, time.Second, func(t Turn) { got[from] = t }) }
	ask(1)
	ask(2)
	ask(3)
	if got[1].Ticket == 0 || len(got) != 1 {
		t.Fatalf("turns %v", got)
	}
	dead[1], dead[2] = true, true
	ask(4)
	if got[3].Ticket == 0 || got[2].Ticket != 0 {
		t.Errorf("turns %v: 3 is the first live node", got)
	}
	if _, ok := got[4]; ok {
		t.Error("4 does not wait")
	}
}

package coordinator_test

import (
	"testing"

	"cqld/row"
)

// TestConditionalChangesAllocateLittle checks how much a conditional change on a ring of four allocates on all nodes
// together, including the messages, which the test copies. The ring of the test makes about 26 of them, to know when
// its goroutines have ended.
func TestConditionalChangesAllocateLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget under the race detector")
	}
	n := newBenchRing(t, 4)[0]
	key := row.NewPartitionKey([]byte("k"))
	ended := make(chan error, 1)
	next := 0
	change := func() {
		next++
		n.insert(key, next, 1, func(err error) { ended <- err })
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	for range 20 {
		change() // fills the pools, and makes the node the one that needs no promises
	}
	const most = 236
	// Other goroutines of the process are counted, too, and a slow machine repeats a part of a change.
	got := testing.AllocsPerRun(50, change)
	for attempts := 1; got > most && attempts < 10; attempts++ {
		got = min(got, testing.AllocsPerRun(50, change))
	}
	if got > most {
		t.Errorf("%v allocations, want at most %v", got, most)
	}
	t.Logf("%v allocations", got)
}

package simulation

import "testing"

// TestOrderedWritesWhileTheRingChanges runs registers with clocks apart while nodes come and go, at one and at
// three replicas: the newest timestamp must be asked of both sides.
func TestOrderedWritesWhileTheRingChanges(t *testing.T) {
	runFewReplicas(t, 30, "skewed", "join leave isolate bad-links", func(*Options) {})
}

// TestOrderedWritesRepeat shows that the asking is in the history of a seed as all else is.
func TestOrderedWritesRepeat(t *testing.T) {
	for seed := range uint64(3) {
		o := DefaultOptions(seed)
		o.Workloads = []string{"skewed"}
		runTwice(t, o)
	}
}

package simulation

import "testing"

// TestOrderedWritesWhileTheRingChanges runs registers with clock skew while nodes join and leave, with one and with
// three replicas: the newest timestamp must be requested from both sides.
func TestOrderedWritesWhileTheRingChanges(t *testing.T) {
	runFewReplicas(t, 30, "skewed", "join leave isolate bad-links", func(*Options) {})
}

// TestOrderedWritesRepeat shows that these requests are deterministic, too.
func TestOrderedWritesRepeat(t *testing.T) {
	for seed := range uint64(3) {
		o := DefaultOptions(seed)
		o.Workloads = []string{"skewed"}
		runTwice(t, o)
	}
}

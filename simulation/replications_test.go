package simulation

import (
	"testing"

	"cqld/internal/mutant"
)

// TestReplicationsChange changes the replication of a keyspace, repairs and runs cleanups in any order, with nodes
// down: a row that a majority acknowledged stays on a node from which a repair can copy it.
func TestReplicationsChange(t *testing.T) {
	total := runAlone(t, alone(), 100, func(o *Options) { *o = ReplicationsOptions(o.Seed) })
	// Most cleanups are refused, because too few ranges were repaired since the changes.
	for what, most := range map[string]int{"replications changed": 2 * alone(), "ranges cleaned up": alone() / 4} {
		if total.Counted[what] < most {
			t.Errorf("%s: %d: nothing is tested", what, total.Counted[what])
		}
	}
}

// TestForgettingFormerReplications shows that the test above detects nodes that remove the only copies.
func TestForgettingFormerReplications(t *testing.T) {
	mutant.Need(t, "ring/former-data-forgotten")
	mustFail(t, 1, 30, func(o *Options) {
		*o = ReplicationsOptions(o.Seed)
	}, "acknowledged row")
}

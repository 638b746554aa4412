package simulation

import "testing"

// TestReplicationsChange changes the replication of a keyspace, repairs and cleans up in any order, with nodes down: what a
// majority acknowledged stays on a node from which a repair can copy it.
func TestReplicationsChange(t *testing.T) {
	total := runAlone(t, alone(), 100, func(o *Options) { *o = ReplicationsOptions(o.Seed) })
	// Most cleanups are refused: too little was repaired since the changes.
	for what, most := range map[string]int{"replications changed": 2 * alone(), "ranges cleaned up": alone() / 4} {
		if total.Counted[what] < most {
			t.Errorf("%s: %d: nothing is tested", what, total.Counted[what])
		}
	}
}

// TestForgettingFormerReplications shows that the test above finds nodes that remove what only they have.
func TestForgettingFormerReplications(t *testing.T) {
	mustFail(t, 1, 30, func(o *Options) {
		*o = ReplicationsOptions(o.Seed)
		o.ForgetFormer = true
	}, "acknowledged row")
}

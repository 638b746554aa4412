package simulation

import (
	"testing"

	"cqld/internal/mutant"
	"cqld/internal/tier"
)

// TestRestartsWhileTheRingChanges restarts the nodes of rings that grow, shrink and move: each replica keeps the
// acknowledged rows.
func TestRestartsWhileTheRingChanges(t *testing.T) {
	runAlone(t, tier.Draws(alone(), 1), 20, func(o *Options) { *o = RestartsOptions(o.Seed) })
}

// TestReactingToTheReplay shows that a node that acts on each topology of the log that it replays loses rows.
func TestReactingToTheReplay(t *testing.T) {
	mutant.Need(t, "ring/reacts-to-the-replay")
	mustFail(t, 1, 60, func(o *Options) {
		*o = RestartsOptions(o.Seed)
	}, "of its")
}

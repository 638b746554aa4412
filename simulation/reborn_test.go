package simulation

import (
	"testing"

	"cqld/internal/mutant"
)

// TestSimNeedsReadsThatDoNotRepairTruncatedTables shows that the simulation finds rows that a read repair restores: the
// read began when some replicas had dropped their rows and others had not.
func TestSimNeedsReadsThatDoNotRepairTruncatedTables(t *testing.T) {
	mutant.Need(t, "truncate/reads-repair-meanwhile")
	mustFail(t, 0, 200, rebornOptions, "was resurrected")
}

// TestSimResurrection truncates, drops and alters a table that reads repair, while coordinators know of all messages in
// transit: not even a row that was acknowledged just before a TRUNCATE reappears.
func TestSimResurrection(t *testing.T) { runAlone(t, alone(), 100, rebornOptions) }

func rebornOptions(o *Options) {
	o.Workloads, o.Points = []string{"reborn"}, nil
	o.FaultKinds = [][]string{{"isolate", "one-way"}, {"join", "leave", "move"},
		{"halves", "slow-disk", "flush"}}[o.Seed%3]
}

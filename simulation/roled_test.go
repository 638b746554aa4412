package simulation

import (
	"strings"
	"testing"
	"time"

	"cqld/internal/tier"
)

// roledOnly makes a run one of the workload alone.
func roledOnly(o *Options) {
	o.Workloads, o.Extra = []string{"roled"}, []workloadKind{roledKind()}
}

// TestRoleChanges runs the workload alone, under the faults that the seeds draw.
func TestRoleChanges(t *testing.T) { runAlone(t, alone(), 40, roledOnly) }

// TestRoleChangesWhileTheRingChanges changes roles while nodes come, go and start again.
func TestRoleChangesWhileTheRingChanges(t *testing.T) {
	runAlone(t, alone(), 40, func(o *Options) {
		roledOnly(o)
		o.FaultKinds = strings.Fields("join leave move restart kill power-all restart-storm bad-links")
	})
}

// TestRolesInSnapshots changes roles often enough for snapshots of the metadata log, from which nodes restart and new
// nodes join.
func TestRolesInSnapshots(t *testing.T) {
	for seed := range uint64(tier.Draws(2, 1)) {
		o := DefaultOptions(seed)
		o.Workloads = []string{"roled"}
		o.Extra = []workloadKind{{name: "roled", make: func(c *Cluster) workload {
			return newRoleds(c, 24, 10*time.Millisecond)
		}}}
		o.FaultKinds, o.Faults = strings.Fields("join leave restart kill"), 3*time.Second
		report(t, o, run(t, o))
	}
}

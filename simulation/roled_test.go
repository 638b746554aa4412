package simulation

import (
	"strings"
	"testing"
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

package sim

import (
	"strings"
	"testing"
)

// TestWhatWasReadStays runs registers while nodes come and go, with so few replicas that two quorums have no
// more than one in common: what was read once, acknowledged or not, must be read ever after. Seed 14 was the
// first that did not.
func TestWhatWasReadStays(t *testing.T) {
	runFewReplicas(t, 12, "register", "join leave isolate one-way bad-links")
}

// runFewReplicas runs 20 seeds of a workload on a ring of four that changes, at one and at three replicas.
func runFewReplicas(t *testing.T, first uint64, workload, faults string) {
	t.Helper()
	n := uint64(20)
	if testing.Short() {
		n = 4
	}
	for seed := first; seed < first+n; seed++ {
		o := DefaultOptions(seed)
		o.Workloads, o.FaultKinds = []string{workload}, strings.Fields(faults)
		o.Nodes, o.Factor = 4, 1+2*int(seed%2)
		report(t, o, run(t, o))
	}
}

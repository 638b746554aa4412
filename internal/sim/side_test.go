package sim

import (
	"strings"
	"testing"
)

// TestWhatWasReadStays runs registers while nodes come and go, with so few replicas that two quorums have no
// more than one in common: what was read once, acknowledged or not, must be read ever after. Seed 14 was the
// first that did not.
func TestWhatWasReadStays(t *testing.T) {
	n := uint64(20)
	if testing.Short() {
		n = 4
	}
	for seed := uint64(12); seed < 12+n; seed++ {
		o := DefaultOptions(seed)
		o.Workloads, o.FaultKinds = []string{"register"}, strings.Fields("join leave isolate one-way bad-links")
		o.Nodes, o.Factor = 4, 1+2*int(seed%2)
		report(t, o, run(t, o))
	}
}

package simulation

import (
	"strings"
	"testing"
	"time"
)

// TestWhatWasReadStays runs registers while nodes come and go, with so few replicas that two quorums have no
// more than one in common: what was read once, acknowledged or not, must be read ever after. Seed 14 was the
// first that did not.
func TestWhatWasReadStays(t *testing.T) {
	runFewReplicas(t, 12, "register", "join leave isolate one-way bad-links", func(*Options) {})
}

// TestWhatWasReadStaysWhileTheRingSwitches is TestWhatWasReadStays with rare heartbeats: they put time between the switch
// of an operation and its comparison, in which reads must ask both sides.
func TestWhatWasReadStaysWhileTheRingSwitches(t *testing.T) {
	runFewReplicas(t, 30, "register", "join leave move bad-links", (*Options).slowSwitch)
}

// slowSwitch makes heartbeats rare, and gives more clients time to read meanwhile.
func (o *Options) slowSwitch() { o.Pace, o.Clients, o.Faults = 8, 12, 15*time.Second }

// runFewReplicas runs 20 seeds of a workload on a ring of four that changes, at one and at three replicas. change
// changes the options further.
func runFewReplicas(t *testing.T, first uint64, workload, faults string, change func(*Options)) {
	t.Helper()
	n := uint64(20)
	if testing.Short() {
		n = 4
	}
	for seed := first; seed < first+n; seed++ {
		o := DefaultOptions(seed)
		o.Workloads, o.FaultKinds = []string{workload}, strings.Fields(faults)
		o.Nodes, o.Factor = 4, 1+2*int(seed%2)
		change(&o)
		report(t, o, run(t, o))
	}
}

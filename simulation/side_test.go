package simulation

import (
	"strings"
	"testing"
	"time"
)

// TestReadValuesStayVisible runs registers while nodes join and leave, with so few replicas that two quorums have at
// most one in common: a value that was read once, acknowledged or not, must be read by all later reads. Seed 14 was the
// first that failed.
func TestReadValuesStayVisible(t *testing.T) {
	runFewReplicas(t, 12, "register", "join leave isolate one-way bad-links", func(*Options) {})
}

// TestReadValuesStayVisibleDuringSwitch is TestReadValuesStayVisible with rare heartbeats: they put time between the
// switch of an operation and its comparison, in which reads must use both sides.
func TestReadValuesStayVisibleDuringSwitch(t *testing.T) {
	runFewReplicas(t, 30, "register", "join leave move bad-links", (*Options).slowSwitch)
}

// slowSwitch makes heartbeats rare, and gives more clients time to read meanwhile.
func (o *Options) slowSwitch() { o.Pace, o.Clients, o.Faults = 8, 12, 15*time.Second }

// runFewReplicas runs 20 seeds of a workload on a changing ring of four, with one and with three replicas. change
// modifies the options further.
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

package simulation

import (
	"slices"
	"testing"

	"cqld/internal/mutant"
)

// smaller configures a cluster in which most coordinators are not replicas, and partitions have different replicas: if
// every node were a replica, no update of a counter would be sent, and no batch would be sent in parts.
func smaller(o *Options, workload string) {
	o.Nodes, o.Factor = 5, 3
	o.Workloads = []string{workload}
	// Of three replicas, two do not suffice if one has lost its disk.
	o.FaultKinds = slices.DeleteFunc(o.FaultKinds, func(kind string) bool {
		return kind == "bit-flip" ||
			kind == "wiped-disk"
	})
}

// TestSimCounters runs counters with remote leaders.
func TestSimCounters(t *testing.T) { runSmaller(t, "counter") }

// TestSimBatches runs logged batches over partitions with different replicas.
func TestSimBatches(t *testing.T) { runSmaller(t, "batch") }

func runSmaller(t *testing.T, workload string) {
	runAlone(t, alone(), 10, func(o *Options) { smaller(o, workload) })
}

// TestSimNeedsTheBatchlog shows that the simulation finds batches of which a part is lost with the coordinator.
func TestSimNeedsTheBatchlog(t *testing.T) {
	mutant.Need(t, "batchlog/nothing-logged")
	mustFail(t, 0, 100, func(o *Options) {
		smaller(o, "batch")
		o.FaultKinds = slices.Compact(append(o.FaultKinds, "kill", "isolate", "one-way"))
	}, "of its")
}

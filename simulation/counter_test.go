package simulation

import (
	"slices"
	"testing"
)

// smaller makes a cluster in which most coordinators are no replica, and partitions have different
// ones: with a replica everywhere, no update of a counter is sent, and no batch is sent in parts.
func smaller(o *Options, workload string) {
	o.Nodes, o.Factor = 5, 3
	o.Workloads = []string{workload}
	// Of three replicas, two are no longer enough when one has lost its disk.
	o.FaultKinds = slices.DeleteFunc(o.FaultKinds, func(kind string) bool { return kind == "bit-flip" || kind == "wiped-disk" })
}

// TestSimCounters runs counters where leaders are elsewhere.
func TestSimCounters(t *testing.T) { runSmaller(t, "counter") }

// TestSimBatches runs logged batches over partitions with different replicas.
func TestSimBatches(t *testing.T) { runSmaller(t, "batch") }

func runSmaller(t *testing.T, workload string) {
	runAlone(t, alone(), 10, func(o *Options) { smaller(o, workload) })
}

// TestSimNeedsIdempotentCounters shows that it finds messages that are counted as often as they come.
func TestSimNeedsIdempotentCounters(t *testing.T) {
	mustFail(t, 0, 100, func(o *Options) {
		o.CounterUnsafe.NotIdempotent = true
		smaller(o, "counter")
	}, "but lies between")
}

// TestSimNeedsTheBatchlog shows that it finds batches of which a part is lost with the coordinator.
func TestSimNeedsTheBatchlog(t *testing.T) {
	mustFail(t, 0, 100, func(o *Options) {
		o.BatchUnsafe.Disabled = true
		smaller(o, "batch")
		o.FaultKinds = slices.Compact(append(o.FaultKinds, "kill", "isolate", "one-way"))
	}, "of its")
}

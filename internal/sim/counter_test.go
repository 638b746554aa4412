package sim

import (
	"slices"
	"strings"
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
	acked, runs := 0, max(*seeds/15, min(*seeds, 10)) // TestSim has these workloads, too
	for i := range runs {
		o := DefaultOptions(*firstSeed + uint64(i))
		smaller(&o, workload)
		r := run(t, o)
		for _, f := range r.Failures {
			t.Errorf("seed %d: %s\n%v\n%s", o.Seed, f, o, strings.Join(r.Plan, "\n"))
		}
		acked += r.Acked
	}
	if t.Logf("%d acknowledged", acked); acked < 10*runs {
		t.Error("the workload tests nothing")
	}
}

// TestSimNeedsIdempotentCounters shows that it finds messages that are counted as often as they come.
func TestSimNeedsIdempotentCounters(t *testing.T) {
	mustFail(t, func(o *Options) {
		o.Unsafe.CounterNotIdempotent = true
		smaller(o, "counter")
	}, "but lies between")
}

// TestSimNeedsTheBatchlog shows that it finds batches of which a part is lost with the coordinator.
func TestSimNeedsTheBatchlog(t *testing.T) {
	mustFail(t, func(o *Options) {
		o.Unsafe.NoBatchlog = true
		smaller(o, "batch")
		o.FaultKinds = slices.Compact(append(o.FaultKinds, "kill", "isolate", "one-way"))
	}, "of its")
}

package simulation

import (
	"testing"
	"time"

	"cqld/storage"
)

// graveOptions returns the options of a run in which nodes are down for longer than gc_grace, and hints are lost.
func graveOptions(seed uint64) Options {
	o := DefaultOptions(seed)
	o.Nodes, o.Factor, o.Workloads, o.Faults = 4, 4, []string{"graves"}, 60*time.Second
	o.FaultKinds = []string{"isolate", "one-way", "bad-links", "slow-links", "repair"}
	o.PageBytes, o.Unsafe.Sync, o.NoHints = 0, storage.SyncBatch, true
	return o
}

// TestSimDeletedRowsStayDeleted runs clusters in which tombstones are purged as soon as they are repaired.
func TestSimDeletedRowsStayDeleted(t *testing.T) {
	n := max(2, *seeds/30)
	if testing.Short() {
		n = 2
	}
	deleted, purged, restricted := 0, 0, 0
	for i := range n {
		seed := *firstSeed + uint64(i)
		r := run(t, graveOptions(seed))
		for _, f := range r.Failures {
			t.Errorf("seed %d: %s", seed, f)
		}
		deleted += r.Acked
		purged += r.Counted["purged"]
		restricted += r.Counted["some replicas repaired"]
	}
	t.Logf("%d seeds, %d rows deleted, %d entries purged, %d restricted repairs", n, deleted, purged, restricted)
	if deleted < 20*n || purged < 20*n || restricted < n {
		t.Errorf("only %d rows were deleted, %d entries purged, and %d repairs restricted, in %d seeds",
			deleted, purged, restricted, n)
	}
}

// TestResumedNodesSeeEachOther runs a seed in which nodes 1 and 4 are paused together for 1.9 s, while the other
// replicas are repaired. The repair that follows immediately must not fail because their first ticks find each other
// silent for the whole pause.
func TestResumedNodesSeeEachOther(t *testing.T) {
	o := optionsOf(t, 20026)
	report(t, o, run(t, o))
}

// TestSimNeedsRepairBeforePurge shows that the simulation finds tombstones that are purged before all replicas have
// them.
func TestSimNeedsRepairBeforePurge(t *testing.T) {
	mustFail(t, 0, 20, func(o *Options) {
		*o = graveOptions(o.Seed)
		o.Unsafe.PurgeUnrepaired = true
	}, "was resurrected")
}

package simulation

import (
	"testing"

	"cqld/internal/tier"
)

// TestSimCAS runs conditional changes alone, with maximum contention.
func TestSimCAS(t *testing.T) {
	n := alone()
	total := runAlone(t, n, 10, func(o *Options) { o.Workloads = []string{"cas"} })
	shared, unprepared := total.Stats.CASShared, total.Stats.CASUnprepared
	t.Logf("%d went in one round with others, %d proposals without promises", shared, unprepared)
	if n >= 10 && (shared < 10*uint64(n) || unprepared < 10*uint64(n)) {
		t.Errorf("%d went with others, %d proposals had no promises: the workload tests neither", shared, unprepared)
	}
}

// TestSimCASOfOneVoter runs them with one replica for each partition, to which other nodes also send requests, while
// messages are duplicated and delayed.
func TestSimCASOfOneVoter(t *testing.T) {
	runAlone(t, tier.Draws(max(*seeds/10, min(*seeds, 10)), 3), 10, func(o *Options) {
		o.Workloads, o.Nodes, o.Factor = []string{"cas"}, 3, 1
		o.FaultKinds = []string{"kill", "power-one", "restart-storm", "pause", "isolate", "one-way", "bad-links",
			"slow-links", "reorder", "clock-jump"}
	})
}

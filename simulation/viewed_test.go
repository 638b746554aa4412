package simulation

import (
	"strings"
	"testing"

	"cqld/internal/mutant"
)

// viewedOnly makes a run one of the workload alone.
func viewedOnly(o *Options) {
	o.Workloads, o.Extra = []string{"viewed"}, []workloadKind{viewedKind()}
}

// TestViewsWhileTheRingChanges reads views while nodes come and go, at one and at three replicas.
func TestViewsWhileTheRingChanges(t *testing.T) {
	runFewReplicas(t, 20, "viewed", "join leave isolate bad-links", viewedOnly)
}

// TestViews runs the workload alone, under the faults that the seeds draw.
func TestViews(t *testing.T) { runAlone(t, alone(), 16, viewedOnly) }

// TestTrustedReplicasOfViewsAreFound takes the first version of a row of the base table as the reconciled one. Some
// seed must find a row at a place in a view that it has left.
func TestTrustedReplicasOfViewsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("many seeds")
	}
	mutant.Need(t, "index/first-version-trusted")
	mustFail(t, 0, 200, func(o *Options) {
		viewedOnly(o)
		o.FaultKinds = strings.Fields("isolate one-way bad-links")
	}, "viewed")
}

// TestRequestedOperationsEndBeforeComparisons runs seed 605454, in which a decommission was requested long before it
// began: the repair that makes the replicas of the healed cluster equal must not begin before it.
func TestRequestedOperationsEndBeforeComparisons(t *testing.T) {
	o := DrawnOptions(605454)
	viewedOnly(&o)
	report(t, o, run(t, o))
}

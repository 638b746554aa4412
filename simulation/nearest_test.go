package simulation

import (
	"strings"
	"testing"

	"cqld/internal/mutant"
)

// nearestOnly makes a run one of the workload alone.
func nearestOnly(o *Options) {
	o.Workloads, o.Extra = []string{"nearest"}, []workloadKind{nearestKind()}
}

// TestNearestWhileTheRingChanges searches for vectors while nodes come and go, at one and at three replicas.
func TestNearestWhileTheRingChanges(t *testing.T) {
	for seed := uint64(40); seed < 44; seed++ {
		o := DefaultOptions(seed)
		nearestOnly(&o)
		o.FaultKinds, o.Nodes, o.Factor = strings.Fields("join leave isolate bad-links"), 4, 1+2*int(seed%2)
		report(t, o, run(t, o))
	}
}

// TestNearest runs the workload alone, under the faults that the seeds draw.
func TestNearest(t *testing.T) { runAlone(t, min(alone(), 3), 100, nearestOnly) }

// TestTrustedReplicasOfVectorsAreFound takes the first version of a candidate as the reconciled one. Some seed must
// find a vector that was overwritten or deleted.
func TestTrustedReplicasOfVectorsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("many seeds")
	}
	mutant.Need(t, "index/first-version-trusted")
	mustFail(t, 0, 200, func(o *Options) {
		nearestOnly(o)
		o.FaultKinds = strings.Fields("isolate one-way bad-links")
	}, "nearest")
}

// TestGraphsThatAreNotComparedAreFound goes on to use graphs after rows were streamed. Some seed must miss a row.
func TestGraphsThatAreNotComparedAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("many seeds")
	}
	mutant.Need(t, "index/graphs-not-compared")
	mustFail(t, 0, 200, func(o *Options) {
		nearestOnly(o)
		o.FaultKinds = strings.Fields("join leave")
	}, "nearest")
}

package simulation

import (
	"strings"
	"testing"

	"cqld/internal/mutant"
)

// filteredOnly makes a run one of the workload alone.
func filteredOnly(o *Options) {
	o.Workloads, o.Extra = []string{"filtered"}, []workloadKind{filteredKind()}
}

// TestFilteredReadsWhileTheRingChanges runs reads with filters while nodes come and go, at one and at three replicas:
// with one replica, it evaluates the whole filter except while a range has two sides.
func TestFilteredReadsWhileTheRingChanges(t *testing.T) {
	runFewReplicas(t, 30, "filtered", "join leave isolate bad-links", filteredOnly)
}

// TestFilteredReads runs the workload alone, under the faults that the seeds draw.
func TestFilteredReads(t *testing.T) { runAlone(t, alone(), 100, filteredOnly) }

// TestStaleMatchesAreFound makes each of several replicas evaluate filters on its own version of a row. Some seed must
// find a stale version that matches.
func TestStaleMatchesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("many seeds")
	}
	mutant.Need(t, "reconcile/filter-on-own-version")
	mustFail(t, 0, 200, func(o *Options) {
		filteredOnly(o)
		o.FaultKinds = strings.Fields("isolate one-way bad-links")
	}, "filtered")
}

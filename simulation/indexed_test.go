package simulation

import (
	"strings"
	"testing"

	"cqld/internal/mutant"
)

// indexedOnly makes a run one of the workload alone.
func indexedOnly(o *Options) {
	o.Workloads, o.Extra = []string{"indexed"}, []workloadKind{indexedKind()}
	drawIndexes(o)
}

// TestSearchesWhileTheRingChanges searches by indexes while nodes come and go, at one and at three replicas.
func TestSearchesWhileTheRingChanges(t *testing.T) {
	runFewReplicas(t, 30, "indexed", "join leave isolate bad-links", indexedOnly)
}

// TestSearches runs the workload alone, under the faults that the seeds draw.
func TestSearches(t *testing.T) { runAlone(t, alone(), 100, indexedOnly) }

// TestTrustedReplicasAreFound takes the first version of a candidate as the reconciled one. Some seed must find a value
// that was overwritten or deleted.
func TestTrustedReplicasAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("many seeds")
	}
	mutant.Need(t, "index/first-version-trusted")
	mustFail(t, 0, 200, func(o *Options) {
		indexedOnly(o)
		o.FaultKinds = strings.Fields("isolate one-way bad-links")
	}, "indexed")
}

// TestStreamsWithoutEntriesAreFound adds no entries for streamed rows. Some seed must miss a row.
func TestStreamsWithoutEntriesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("many seeds")
	}
	mutant.Need(t, "index/streamed-rows-without-entries")
	mustFail(t, 0, 200, func(o *Options) {
		indexedOnly(o)
		o.FaultKinds = strings.Fields("join leave")
	}, "indexed")
}

// TestIngestionsThatVoidNothingAreFound takes an index as built although rows were ingested, between the steps of its
// build, that came before it was known. Some seed must miss a row.
func TestIngestionsThatVoidNothingAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("many seeds")
	}
	mutant.Need(t, "index/ingestion-voids-nothing")
	mustFail(t, 43, 150, func(o *Options) {
		indexedOnly(o)
		o.FaultKinds, o.SlowStreams = strings.Fields("join leave"), true
	}, "indexed")
}

// TestSearchesOfRangesGoOn ends searches of ranges where one step ends: behind the rows of the table, or behind the
// entries that it kept. Some seed must miss a row.
func TestSearchesOfRangesGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("many seeds")
	}
	for _, key := range []string{"index/range-ends-at-its-rows", "index/range-ends-at-its-entries"} {
		t.Run(key, func(t *testing.T) {
			mutant.Need(t, key)
			mustFail(t, 0, 100, indexedOnly, "indexed")
		})
	}
}

package simulation

import (
	"strings"
	"testing"

	"cqld/internal/mutant"
)

// TestSimOrdered runs listings in key order alone.
func TestSimOrdered(t *testing.T) {
	runAlone(t, alone(), 10, func(o *Options) { o.Workloads = []string{"ordered"} })
}

// TestSimNeedsQuorumsOfListings takes the keys of one node of each replica set for those of a quorum: the workload
// misses acknowledged partitions.
func TestSimNeedsQuorumsOfListings(t *testing.T) {
	mutant.Need(t, "listing/watermark-of-the-fastest-node")
	mustFail(t, 0, 100, func(o *Options) {
		o.Workloads, o.FaultKinds = []string{"ordered"}, strings.Fields("isolate one-way bad-links kill")
	}, "is not listed")
}

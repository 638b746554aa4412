package simulation

import (
	"strings"
	"testing"
	"time"

	"cqld/simulation/kernel"
)

// TestSimEverywhere runs a keyspace with a replica on each node, while nodes join, leave, crash and are cut off: each
// change of the ring changes how many replicas a quorum needs.
func TestSimEverywhere(t *testing.T) {
	total := runAlone(t, alone(), 10, func(o *Options) {
		r := kernel.NewStream(o.Seed, "everywhere")
		o.Nodes, o.Factor, o.Datacenters = 2+r.Intn(3), 2, nil
		o.Made = func(c *Cluster) { c.everyNode = true }
		o.Workloads = []string{"register", "set", "cas", "counter"}
		o.FaultKinds, o.Faults = strings.Fields("join leave kill isolate one-way bad-links"), 15*time.Second
	})
	if total.Counted["nodes left"] == 0 {
		t.Error("no node left")
	}
}

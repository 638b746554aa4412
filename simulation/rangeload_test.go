package simulation

import (
	"testing"
	"time"

	rangeload "cqld/ring/load"
)

// TestLoadIsExchanged has clients write and read on a ring of four, and then compares what the nodes know of each
// other: each knows the load and the ranges of all, from heartbeats over the simulated network, as their nodes measure
// them.
func TestLoadIsExchanged(t *testing.T) {
	o := DefaultOptions(1)
	o.Nodes, o.Factor, o.Points, o.FaultKinds = 4, 3, nil, nil
	c := NewCluster(o)
	for _, w := range c.workloads {
		w.start()
	}
	never := func() bool { return false }
	c.kernel.RunUntil(c.kernel.Now()+20*time.Second, never)
	for i, n := range c.nodes {
		s := n.process.instance.Loads.Meter.Snapshot()
		if s.Totals.Reads == 0 || s.Totals.Writes == 0 || s.Sum.Bytes == 0 || len(s.Ranges) == 0 {
			t.Errorf("node %d has measured %+v", i+1, s)
		}
	}
	for i, n := range c.nodes {
		known := rangeload.Combine(n.process.instance.Loads.Reports.All(n.process.cluster.Self()))
		if len(known.Nodes) != 4 || len(known.Ranges) != len(n.process.cluster.Metadata().Topology.Bounds()) {
			t.Errorf("node %d knows %d nodes and %d ranges", i+1, len(known.Nodes), len(known.Ranges))
		}
		for _, x := range known.Nodes {
			if x.Sum.Charge == 0 || x.Held == 0 || x.Held != len(x.Ranges) {
				t.Errorf("node %d knows of node %v only %+v", i+1, x.Node, x.Sum)
			}
		}
		if refused := n.process.instance.Loads.Reports.Refused(); refused != 0 {
			t.Errorf("node %d refused %d reports", i+1, refused)
		}
	}
}

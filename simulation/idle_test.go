package simulation

import (
	"testing"
	"time"
)

// TestIdleRingRests counts what a ring of four does while no client, operator or fault asks for anything: heartbeats
// between all nodes, which carry Raft's, and one tick of each node with them. A view and rows that were written before
// add nothing: work that repeats itself without a cause shows here as further events.
func TestIdleRingRests(t *testing.T) {
	const (
		nodes     = 4
		idle      = 60 * time.Second
		perSecond = 4 // heartbeats and ticks
		// Each message is up to three events: its delivery, its turn on the CPU, and the loop of the cluster.
		heartbeats = nodes * (nodes - 1) * perSecond * 3
		raft       = 2 * heartbeats / nodes // from the leader to the others, and their answers
		ticks      = nodes * perSecond * 2
		storage    = nodes * 12 // checks of the simulation's disks, and of the free space
	)
	for _, workload := range []string{"", "viewed"} {
		o := DefaultOptions(1)
		o.Nodes, o.Factor, o.Points, o.FaultKinds, o.Workloads = nodes, nodes, nil, nil, nil
		if workload == "viewed" {
			viewedOnly(&o)
		}
		c := NewCluster(o)
		for _, w := range c.workloads {
			w.start()
		}
		never := func() bool { return false }
		c.kernel.RunUntil(c.kernel.Now()+10*time.Second, never)
		c.heal() // the clients end
		c.kernel.RunUntil(c.kernel.Now()+5*time.Minute, never)
		before := c.kernel.Count()
		c.kernel.RunUntil(c.kernel.Now()+idle, never)
		got, most := float64(c.kernel.Count()-before)/idle.Seconds(), float64(heartbeats+raft+ticks+storage)
		t.Logf("%q: %.0f events a second, at most %.0f", workload, got, most)
		if got > most {
			t.Errorf("%q: %.0f events a second in an idle ring", workload, got)
		}
		if len(c.failures) > 0 {
			t.Error(c.failures)
		}
	}
}

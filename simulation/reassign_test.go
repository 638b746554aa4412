package simulation

import (
	"strings"
	"testing"
	"time"

	"cqld/internal/tier"
	"cqld/simulation/meetings"
)

// reassignmentOptions returns the options of a run in which ranges are split, merged and given to other nodes, while
// nodes end, join and leave, are cut off, and tables are created, truncated and dropped.
func reassignmentOptions(seed uint64) Options {
	o := DefaultOptions(seed)
	o.Meet = true
	o.Workloads = strings.Fields("register set cas counter batch churn truncate")
	o.FaultKinds = strings.Fields("split merge reassign abort kill pause isolate restart")
	// In one data center, a reassignment is refused while the ring changes otherwise.
	if seed%2 == 0 {
		o.FaultKinds = append(o.FaultKinds, "join", "leave", "move", "flush")
	}
	o.Faults, o.Hurry, o.Clients = 15*time.Second, 2, 3
	if o.Factor == o.Nodes {
		o.Nodes, o.Factor = 4, 3 // a range has a node that can gain it
	}
	return o
}

// TestReassignments splits, merges and reassigns ranges under load and faults. At the end, each replica has what was
// acknowledged.
func TestReassignments(t *testing.T) {
	n := tier.Draws(max(*seeds/15, min(*seeds, 10)), 3)
	met := map[meetings.Pair]int{}
	total := Result{}
	for i := range n {
		o := reassignmentOptions(*firstSeed + uint64(i))
		r := run(t, o)
		report(t, o, r)
		if i == 0 && run(t, o).Trace != r.Trace {
			t.Errorf("seed %d: two runs of it differ", o.Seed)
		}
		total.add(r)
		for p, times := range r.Met {
			met[p] += times
		}
	}
	t.Logf("%v", total.Counted)
	t.Logf("%v", met)
	// Fewer seeds need not have all of it.
	if n < 10 {
		return
	}
	for _, what := range []string{"ranges split", "tokens reassigned"} {
		if total.Counted[what] == 0 {
			t.Errorf("%s: none", what)
		}
	}
	for _, op := range reassignmentMeets() {
		if met[meetings.PairOf(meetings.Reassignment, op)] == 0 {
			t.Errorf("%s and a reassignment did not meet in %d seeds", op, n)
		}
	}
}

// reassignmentMeets returns the operations that TestReassignments must meet. A join, a departure, a move and TRUNCATE
// wait for the end of a reassignment in the same data center, or are refused.
func reassignmentMeets() []string {
	return []string{meetings.Kill, meetings.Restart, meetings.Pause, meetings.Partition, meetings.SchemaChange,
		meetings.Hints, meetings.ConditionalChange, meetings.Counter, meetings.BatchLog}
}

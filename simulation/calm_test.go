package simulation

import (
	"slices"
	"strings"
	"testing"
)

// TestRequestsSucceedWhileRingChanges sends requests while nodes join, leave and move, with all nodes alive, and with
// one dead node that is removed or replaced: none may fail. A test with real processes first found a read that one side
// of the change could not answer, and that waited for the other until its timeout.
func TestRequestsSucceedWhileRingChanges(t *testing.T) {
	n := max(4, *seeds/10)
	if testing.Short() {
		n = 2
	}
	acked := 0
	// a node joins while another is dead, and its first heartbeat is late, or the join is aborted
	draws := []uint64{1011, 1266, 1287, 15}
	for i := range n {
		draws = append(draws, *firstSeed+uint64(i))
	}
	for _, seed := range draws {
		o := calmOptions(seed)
		r := run(t, o)
		report(t, o, r)
		acked += r.Acked
	}
	t.Logf("%d seeds, %d requests", n, acked)
	if acked < 100*n {
		t.Errorf("only %d requests in %d seeds", acked, n)
	}
}

// calmRing returns the size of the ring of such a run, also for a run that a command repeats.
func calmRing(seed uint64) (nodes, factor int) { return 4 + int(seed%2), 4 }

// calmOptions returns the options of a run without faults.
func calmOptions(seed uint64) Options {
	o := DefaultOptions(seed)
	o.Workloads, o.Points = []string{"calm"}, nil
	o.Nodes, o.Factor = calmRing(seed)
	o.FaultKinds = strings.Fields("join leave move abort flush")
	if seed%3 == 0 { // one node dies
		o.FaultKinds = append(o.FaultKinds, "removenode", "wiped-disk")
		o.FaultKinds = slices.DeleteFunc(o.FaultKinds, func(k string) bool { return k == "leave" })
	}
	return o
}

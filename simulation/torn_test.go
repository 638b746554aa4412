package simulation

import "testing"

// TestSimTornWrites cuts the power of nodes that wait for their disks, alone.
func TestSimTornWrites(t *testing.T) {
	torn, n := 0, alone()
	for i := range n {
		o := DefaultOptions(*firstSeed + uint64(i))
		o.Workloads, o.FaultKinds, o.TornWrites = []string{"register", "cas"},
			[]string{"power-torn", "power-all", "fsync-error"}, true
		r := run(t, o)
		report(t, o, r)
		if i == 0 && run(t, o).Trace != r.Trace {
			t.Errorf("seed %d: two runs of it differ", o.Seed)
		}
		torn += r.Counted["logs torn"]
	}
	t.Logf("%d seeds: %d logs torn", n, torn)
	if n >= 10 && torn < n {
		t.Errorf("only %d logs were torn in %d seeds: the runs test nothing", torn, n)
	}
}

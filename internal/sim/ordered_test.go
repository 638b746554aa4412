package sim

import (
	"strings"
	"testing"
)

// TestSimOrdered runs listings in key order alone.
func TestSimOrdered(t *testing.T) {
	n := max(*seeds/15, min(*seeds, 10))
	tried, acked := 0, 0
	for i := range n {
		o := DefaultOptions(*firstSeed + uint64(i))
		o.Workloads = []string{"ordered"}
		r := run(t, o)
		for _, f := range r.Failures {
			t.Errorf("seed %d: %s\n%s", o.Seed, f, strings.Join(r.Plan, "\n"))
		}
		if i < 3 && run(t, o).Trace != r.Trace {
			t.Errorf("seed %d: two runs of it differ", o.Seed)
		}
		tried, acked = tried+r.Operations, acked+r.Acked
	}
	t.Logf("%d seeds: %d operations, %d writes acknowledged", n, tried, acked)
	if n >= 10 && acked < 10*n {
		t.Errorf("%d writes were acknowledged: the workload tests nothing", acked)
	}
}

package simulation

import (
	"strings"
	"testing"
	"time"
)

// TestSimPurge runs conditional changes of all kinds while Paxos state is purged as early as possible.
func TestSimPurge(t *testing.T) {
	n := alone()
	forgotten, acked := 0, 0
	for i := range n {
		o := DefaultOptions(*firstSeed + uint64(i))
		o.Workloads = [][]string{{"cas"}, {"append"}, {"bank", "cas"}}[i%3]
		o.PaxosMargin = []time.Duration{-50, -5, 1, 10, 100, -200, 400}[i%7] * time.Millisecond
		o.Clients = 1 + i%3 // few, so that a partition is sometimes idle
		if i%5 == 4 {
			o.Factor = 1
		}
		r := run(t, o)
		for _, f := range r.Failures {
			t.Errorf("seed %d: %s\n%s", o.Seed, f, strings.Join(r.Plan, "\n"))
		}
		forgotten, acked = forgotten+r.Counted["states forgotten"], acked+r.Acked
	}
	t.Logf("%d seeds: %d changes, %d states forgotten", n, acked, forgotten)
	if n >= 10 && forgotten < n {
		t.Errorf("%d states were forgotten: the runs test nothing", forgotten)
	}
}

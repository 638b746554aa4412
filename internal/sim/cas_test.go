package sim

import (
	"strings"
	"testing"
)

// onlyCAS is the options of a seed with the conditional workload alone.
func onlyCAS(seed uint64) Options {
	o := DefaultOptions(seed)
	o.Workloads = []string{"cas"}
	return o
}

// TestSimCAS runs conditional changes alone, which then meet each other most.
func TestSimCAS(t *testing.T) {
	n := max(*seeds/15, min(*seeds, 10)) // TestSim has this workload, too
	tried, acked, shared, unprepared := 0, 0, uint64(0), uint64(0)
	for i := range n {
		seed := *firstSeed + uint64(i)
		r := run(t, onlyCAS(seed))
		for _, f := range r.Failures {
			t.Errorf("seed %d: %s\n%s", seed, f, strings.Join(r.Plan, "\n"))
		}
		tried, acked = tried+r.Operations, acked+r.Acked
		shared, unprepared = shared+r.Stats.CASShared, unprepared+r.Stats.CASUnprepared
	}
	t.Logf("%d seeds: %d operations, %d changes applied; %d went in one round with others, %d proposals without promises",
		n, tried, acked, shared, unprepared)
	if n >= 10 && (shared < 10*uint64(n) || unprepared < 10*uint64(n)) {
		t.Errorf("%d went with others, %d proposals had no promises: the workload tests neither", shared, unprepared)
	}
	if n >= 10 && acked < 10*n {
		t.Errorf("%d changes were applied: the workload tests nothing", acked)
	}
}

// casMustFail runs the conditional workload without a safeguard until it is missed.
func casMustFail(t *testing.T, without func(*Options)) {
	if testing.Short() {
		t.Skip("some safeguards take a few hundred seeds to be missed")
	}
	for seed := range uint64(1000) {
		o := onlyCAS(seed)
		without(&o)
		for _, f := range run(t, o).Failures {
			if strings.Contains(f, "not linearizable") {
				t.Logf("seed %d: %s", seed, f)
				return
			}
		}
	}
	t.Error("1000 seeds did not find that a safeguard is missing")
}

// TestSimNeedsPaxosRepair leaves what others began as it is.
func TestSimNeedsPaxosRepair(t *testing.T) {
	casMustFail(t, func(o *Options) { o.Unsafe.NoPaxosRepair = true })
}

// TestSimNeedsPaxosQuorum takes one vote for a majority.
func TestSimNeedsPaxosQuorum(t *testing.T) {
	casMustFail(t, func(o *Options) { o.Unsafe.PaxosQuorumOne = true })
}

// TestSimCASOfOneVoter runs them where every partition has one replica, which other nodes ask, too, while
// messages come twice and late.
func TestSimCASOfOneVoter(t *testing.T) {
	n := max(*seeds/10, min(*seeds, 10))
	for i := range n {
		o := onlyCAS(*firstSeed + uint64(i))
		o.Nodes, o.Factor = 3, 1
		o.FaultKinds = []string{"kill", "power-one", "restart-storm", "pause", "isolate", "one-way", "bad-links", "slow-links", "reorder", "clock-jump"}
		for _, f := range run(t, o).Failures {
			t.Errorf("seed %d: %s", o.Seed, f)
		}
	}
}

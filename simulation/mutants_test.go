package simulation

import (
	"strings"
	"testing"
	"time"

	"cqld/internal/mutant"
)

// TestMutantsAreFound switches one fault of tools/mutants after the other on: each time, one of a thousand seeds must
// find a violation. Faults that another workload finds are in the tests of that workload, and TestSafeguards has faults
// of what is simulated.
func TestMutantsAreFound(t *testing.T) {
	for _, m := range []struct {
		keys      string
		workloads string
		kinds     string         // empty means what the seed draws
		change    func(*Options) // nil means no further options
		found     string         // in the failure, one of these
		first     uint64         // of the seeds
	}{
		{
			"hints/every-third-forgotten", "register set", "isolate one-way halves bad-links",
			func(o *Options) {
				o.ConvergeBy = ByHints
				o.spareHints()
			}, "after all hints were delivered", 0,
		},
		{"reconcile/reads-do-not-repair", "register", "isolate halves one-way bad-links", nil, "linearizable", 0},
		{
			"reconcile/short-read-not-continued", "set", "kill isolate bad-links", nil,
			"should not be there|is missing", 0,
		},
		{"reconcile/write-order-ignored", "skewed", "isolate one-way bad-links", nil, "linearizable", 0},
		// The checks at the end of an operation that detect missed writes are off: reads of both sides and the
		// comparison would hide for hundreds of seeds that a write was sent to one side only.
		{
			"quorum/stale-epoch-taken quorum/switching-reads-one-side ring/nothing-compared", "set",
			"join leave isolate one-way bad-links pause slow-links",
			func(o *Options) { o.Nodes, o.Factor = 4, 1 }, "is missing", 0,
		},
		{
			"quorum/other-side-not-counted quorum/switching-reads-one-side ring/nothing-compared", "set",
			"join leave isolate one-way bad-links",
			func(o *Options) { o.Nodes, o.Factor = 4, 1 }, "is missing", 0,
		},
		{
			// Rare heartbeats put time between the switch of an operation and its comparison. Only reads in that time
			// miss writes that are on the other side alone: the comparison copies them.
			"quorum/switching-reads-one-side", "register", "join leave move bad-links",
			func(o *Options) { o.Nodes, o.Factor = 4, 1; o.slowSwitch() }, "linearizable", 195,
		},
		{
			"ring/nothing-compared", "register", "join leave isolate one-way bad-links",
			func(o *Options) { o.Nodes, o.Factor, o.Keys = 4, 1, 200 }, "linearizable", 140,
		},
		{
			// Clients end soon: later changes of a partition would transfer its state to the nodes that gain it.
			"ring/paxos-state-not-streamed", "cas", "join leave move",
			func(o *Options) {
				o.PaxosMargin, o.Nodes, o.Factor, o.Clients, o.Turns, o.Faults = 0, 6, 3, 2, 8, 10*time.Second
				o.loseCommits()
			}, "linearizable", 50,
		},
		{
			// The system's keyspaces have two replicas, so that a replica of the workload's range gains the range for
			// them alone.
			"ring/paxos-states-of-all-keyspaces", "cas append", "leave abort",
			func(o *Options) {
				o.Nodes, o.Factor, o.Faults = 4, 3, 10*time.Second
				o.loseCommits()
			}, "linearizable|lists", 25,
		},
		{
			"paxos/in-progress-not-finished paxos/serial-read-without-finishing", "cas", "", nil, "not linearizable", 0,
		},
		{"paxos/one-vote-decides", "cas", "", nil, "not linearizable", 0},
		{
			"paxos/forgotten-at-restart paxos/no-turns", "cas", "restart-storm reorder one-way",
			func(o *Options) {
				o.Nodes, o.Factor, o.Keys = 3, 3, 1
				o.loseCommits()
			}, "linearizable", 20,
		},
		{
			"paxos/previous-not-compared", "cas", "clock-jump clock-drift slow-links reorder pause",
			func(o *Options) { o.Nodes, o.Factor, o.Keys = 3, 3, 1 }, "linearizable", 360,
		},
		{
			"paxos/low-bound-unknown", "cas", "slow-links reorder pause clock-drift",
			func(o *Options) { o.PaxosMargin, o.Nodes, o.Factor, o.Keys = time.Millisecond, 3, 3, 1 },
			"linearizable", 500,
		},
		{
			"paxos/promise-unsynced paxos/accept-unsynced", "cas", "power-all power-one restart-storm",
			func(o *Options) {
				o.Nodes, o.Factor = 3, 3
				o.loseCommits()
			}, "linearizable", 0,
		},
	} {
		t.Run(m.keys, func(t *testing.T) {
			mutant.Need(t, strings.Fields(m.keys)...)
			mustFail(t, m.first, 1000, func(o *Options) {
				o.Workloads = strings.Fields(m.workloads)
				if m.kinds != "" {
					o.FaultKinds = strings.Fields(m.kinds)
				}
				if m.change != nil {
					m.change(o)
				}
			}, strings.Split(m.found, "|")...)
		})
	}
}

package simulation

import (
	"strings"
	"testing"
	"time"

	"cqld/storage"
)

// TestSafeguards removes one safeguard after the other: each time, one of a thousand seeds must find a violation. Other
// safeguards have their own tests with their workloads: Paxos (cas_test.go), counters and the batch log
// (counter_test.go, batch_test.go), tombstones that wait for repair (repair_test.go).
func TestSafeguards(t *testing.T) {
	for _, s := range []struct {
		name      string
		workloads string
		kinds     string
		without   func(*Options)
		found     string // in the failure, one of these
		first     uint64 // of the seeds
	}{
		{
			"an acknowledged write is on disk", "register", "power-all power-one",
			func(o *Options) { o.Unsafe.Sync = storage.SyncNone }, "linearizable|acknowledged", 0,
		},
		{
			"reads repair before they answer", "register", "isolate halves one-way bad-links",
			func(o *Options) { o.Unsafe.Coordinator.NoReadRepair = true }, "linearizable", 0,
		},
		{
			"short reads go on", "set", "kill isolate bad-links",
			func(o *Options) { o.Unsafe.Coordinator.NoShortRead = true }, "should not be there|is missing", 0,
		},
		{
			"a blank disk is replaced, and does not vote", "register isolation", "wiped-disk isolate one-way power-one",
			func(o *Options) { o.Unsafe.BlankDisksServe, o.Nodes, o.Factor = true, 3, 3 },
			"linearizable|acknowledged|rows of|before", 0,
		},
		{
			"replicas refuse what was planned for an earlier ring", "set",
			"join leave isolate one-way bad-links pause slow-links",
			func(o *Options) { o.Unsafe.Coordinator.StaleEpochs, o.Nodes, o.Factor = true, 4, 1; o.lastMoment() },
			"is missing", 0,
		},
		{
			"a write meets its level among the replicas before and after", "set",
			"join leave isolate one-way bad-links",
			func(o *Options) { o.Unsafe.Coordinator.OneSided, o.Nodes, o.Factor = true, 4, 1; o.lastMoment() },
			"is missing", 0,
		},
		{
			// Rare heartbeats put time between the switch of an operation and its comparison. Only reads in that time
			// miss writes that are on the other side alone: the comparison copies them.
			"reads ask the sides before and after, and repair both", "register", "join leave move bad-links",
			func(o *Options) { o.Unsafe.Coordinator.ReadOneSide, o.Nodes, o.Factor = true, 4, 1; o.slowSwitch() },
			"linearizable", 195,
		},
		{
			"what was gained is compared before the operation ends", "register", "join leave isolate one-way bad-links",
			func(o *Options) { o.Unsafe.NoCompare, o.Nodes, o.Factor, o.Keys = true, 4, 1, 200 }, "linearizable", 140,
		},
		{
			"ties of equal stamps are broken alike everywhere", "ties", "isolate one-way bad-links",
			func(o *Options) { o.Unsafe.TiesByArrival = true }, "is read, but|converged", 0,
		},
		{
			"ordered writes ask for the newest timestamp first", "skewed", "isolate one-way bad-links",
			func(o *Options) { o.Unsafe.Coordinator.NoWriteOrder = true }, "linearizable", 0,
		},
		{
			"a disk does what it says", "register", "power-all power-one",
			func(o *Options) { o.Unsafe.LyingDisks = true }, "linearizable|acknowledged", 0,
		},
		{
			"acceptors remember what they promised and accepted", "cas", "restart-storm reorder one-way",
			func(o *Options) {
				o.Unsafe.Paxos.Acceptor.NoPersist, o.Unsafe.Paxos.NoArbiter = true, true
				o.Nodes, o.Factor, o.Keys = 3, 3, 1
			}, "linearizable", 875,
		},
		{
			"a proposal without promises is taken only when nothing happened since", "cas",
			"clock-jump clock-drift slow-links reorder pause",
			func(o *Options) { o.Unsafe.Paxos.Acceptor.NoPrevious, o.Nodes, o.Factor, o.Keys = true, 3, 3, 1 },
			"linearizable", 360,
		},
		{
			"who has forgotten refuses what is not after the floor", "cas", "slow-links reorder pause clock-drift",
			func(o *Options) {
				o.Unsafe.Paxos.Acceptor.NoLowBound, o.PaxosMargin = true, time.Millisecond
				o.Nodes, o.Factor, o.Keys = 3, 3, 1
			}, "linearizable", 500,
		},
		{
			"acceptors answer when what they accepted is synced", "cas", "power-all power-one restart-storm",
			func(o *Options) {
				o.Unsafe.Paxos.Acceptor.Unsynced, o.Nodes, o.Factor = true, 3, 3
				o.loseCommits()
			}, "linearizable", 0,
		},
		{
			// Clients end soon: later changes of a partition would transfer its state to the nodes that gain it.
			"the state of Paxos moves with its range", "cas", "join leave move",
			func(o *Options) {
				o.Unsafe.NoPaxosStreams, o.PaxosMargin = true, 0
				o.Nodes, o.Factor, o.Clients, o.Turns, o.Faults = 6, 3, 2, 8, 10*time.Second
				o.loseCommits()
			}, "linearizable", 50,
		},
		{
			// The system's keyspaces have two replicas, so that a replica of the workload's range gains the range for
			// them alone.
			"a node receives Paxos states of the keyspaces only of which it gains the range", "cas append",
			"leave abort",
			func(o *Options) {
				o.Unsafe.AllStates, o.Nodes, o.Factor, o.Faults = true, 4, 3, 10*time.Second
				o.loseCommits()
			}, "linearizable|lists", 25,
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("many seeds")
			}
			mustFail(t, s.first, 1000, func(o *Options) {
				o.Workloads, o.FaultKinds = strings.Fields(s.workloads), strings.Fields(s.kinds)
				s.without(o)
			}, strings.Split(s.found, "|")...)
		})
	}
}

// loseCommits keeps decisions only in the state of acceptors for a long time: commits are lost in transit, no hint
// delivers them, and clients do not wait for them.
func (o *Options) loseCommits() { o.Points, o.Levels = []string{"drop-hint", "lose-commits"}, true }

// lastMoment disables the checks at the end of an operation that detect missed writes: reads of both sides and the
// comparison would hide for hundreds of seeds that a write was sent to one side only.
func (o *Options) lastMoment() { o.Unsafe.Coordinator.ReadOneSide, o.Unsafe.NoCompare = true, true }

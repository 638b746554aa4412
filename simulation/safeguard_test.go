package simulation

import (
	"strings"
	"testing"

	"cqld/storage"
)

// TestSafeguards removes one safeguard of what is simulated after the other: each time, one of a thousand seeds must
// find a violation. TestMutantsAreFound does the same with faults of the code.
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
			"a blank disk is replaced, and does not vote", "register isolation", "wiped-disk isolate one-way power-one",
			func(o *Options) { o.Unsafe.BlankDisksServe, o.Nodes, o.Factor = true, 3, 3 },
			"linearizable|acknowledged|rows of|before", 0,
		},
		{
			"ties of equal stamps are broken alike everywhere", "ties", "isolate one-way bad-links",
			func(o *Options) { o.Unsafe.TiesByArrival = true }, "is read, but|converged", 0,
		},
		{
			"a disk does what it says", "register", "power-all power-one",
			func(o *Options) { o.Unsafe.LyingDisks = true }, "linearizable|acknowledged", 0,
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

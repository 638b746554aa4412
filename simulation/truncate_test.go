package simulation

import (
	"testing"
	"time"

	"cqld/internal/mutant"
	"cqld/storage"
)

// truncateOptions changes the options for truncations while the ring changes.
func truncateOptions(o *Options) {
	o.Workloads, o.Points, o.PaxosMargin = []string{"truncate"}, nil, 0
	o.FaultKinds = [][]string{
		{"join", "leave"}, {"join", "leave", "move"}, {"join", "leave", "move", "halves", "abort"},
		{"isolate", "join", "move"},
		{"join", "leave", "removenode"},
	}[o.Seed%5]
	o.Factor, o.Faults, o.Unsafe.Sync = 2+int(o.Seed%3), 15*time.Second, storage.SyncBatch
	o.SlowStreams = o.Seed%2 == 1
}

// TestSimTruncate truncates while nodes join, leave and move, and while hints are handed over.
func TestSimTruncate(t *testing.T) {
	n := max(5, *seeds/10)
	if testing.Short() {
		n = 5
	}
	total := runAlone(t, n, 1, truncateOptions)
	t.Logf("%d seeds: %d truncations, %d while the ring changed", n, total.Acked,
		total.Counted["truncated while the ring changes"])
	if n >= 10 && total.Counted["truncated while the ring changes"] < n/2 {
		t.Errorf("the runs test nothing: %d truncations while the ring changed",
			total.Counted["truncated while the ring changes"])
	}
}

// TestSimNeedsTruncationsInStreams shows that the simulation finds rows that a stream restores after a truncation.
func TestSimNeedsTruncationsInStreams(t *testing.T) {
	mutant.Need(t, "truncate/streams-keep-rows")
	mustFail(t, 170, 60, func(o *Options) {
		truncateOptions(o)
		o.SlowStreams = true
	}, "was resurrected")
}

// TestSimNeedsTruncationFence shows that the simulation finds writes that reach a replica after it has truncated.
func TestSimNeedsTruncationFence(t *testing.T) {
	mutant.Need(t, "truncate/earlier-writes-not-awaited")
	mustFail(t, 0, 60, truncateOptions, "was resurrected")
}

// lateTruncates changes the options so that coordinators are killed while they truncate, and their messages arrive
// late.
func lateTruncates(o *Options) {
	truncateOptions(o)
	o.LateTruncates, o.Factor = true, min(o.Factor, o.Nodes)
	o.FaultKinds = [][]string{nil, {"pause"}, {"isolate"}, nil, {"join", "leave"}}[o.Seed%5]
}

// TestSimLateTruncates kills coordinators while they truncate: their messages do not remove rows that are written after
// the next TRUNCATE, and have no effect after they have expired.
func TestSimLateTruncates(t *testing.T) {
	runAlone(t, min(20, max(5, *seeds/10)), 1, lateTruncates)
}

// TestSimNeedsPreparedTruncations shows that the simulation finds rows that a late truncation request removes.
func TestSimNeedsPreparedTruncations(t *testing.T) {
	mutant.Need(t, "truncate/late-request-applied")
	mustFail(t, 0, 60, lateTruncates, "is missing")
}

// TestRepairsWaitForTruncations runs seed 820987 with its original options: a node did not receive the end of a
// TRUNCATE, and repairs of the table failed there instead of waiting.
func TestRepairsWaitForTruncations(t *testing.T) {
	o := DrawnOptions(820987)
	report(t, o, run(t, o))
}

// clockTruncates changes the options for truncations while wall clocks jump and nodes restart. In half of the seeds,
// rows are written in logged batches.
func clockTruncates(o *Options) {
	o.Workloads, o.Points, o.Levels = []string{"reborn"}, nil, true
	o.FaultKinds = [][]string{
		{"clock-jump", "clock-strobe", "isolate"}, {"clock-strobe", "power-all", "power-torn", "isolate"},
		{"clock-jump", "clock-leap", "restart", "isolate"}, {"clock-jump", "clock-strobe", "leave", "isolate"},
	}[o.Seed/2%4]
	o.Faults, o.LoggedRows = 10*time.Second, o.Seed%2 == 1
}

// TestSimTruncatesWithoutClocks truncates while wall clocks jump: neither hints nor logged batches restore rows.
func TestSimTruncatesWithoutClocks(t *testing.T) { runAlone(t, alone(), 50, clockTruncates) }

// TestSimNeedsTruncationMarks shows that the simulation finds rows that come back because truncations, hints and logged
// batches are ordered by wall clocks.
func TestSimNeedsTruncationMarks(t *testing.T) {
	mutant.Need(t, "truncate/marks-by-clock")
	mustFail(t, 160, 120, clockTruncates, "was resurrected")
}

// TestTruncationAfterAClockWentBack runs seed 870803 with the workloads and faults that failed: the clock of a node
// went back between a hint and a TRUNCATE, and the hint was delivered after it.
func TestTruncationAfterAClockWentBack(t *testing.T) {
	o := DrawnOptions(870803)
	o.Extra, o.Workloads = append(o.Extra, filteredKind()),
		[]string{"ttl", "paging", "ties", "reborn", "cas", "filtered"}
	o.OnlyFaults = []int{1, 2, 3, 4, 5, 6}
	report(t, o, run(t, o))
}

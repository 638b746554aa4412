package simulation

import (
	"slices"
	"testing"
	"time"

	"cqld/internal/tier"
	"cqld/simulation/backups"
	"cqld/simulation/meetings"
)

// TestOperationsMeet runs the seeds in docs/MEETINGS.md: every pair of the table must have been in progress at the same
// time.
func TestOperationsMeet(t *testing.T) {
	tier.Long(t)
	met := metIn(t, 0, meetingSeeds, MeetingOptions)
	ops := meetings.Operations()
	recordMeetings(t, met, func(p meetings.Pair) bool { return slices.Contains(ops, p.A) && slices.Contains(ops, p.B) })
	for i, a := range ops {
		for _, b := range ops[i+1:] {
			if met[meetings.Pair{A: a, B: b}] == 0 {
				t.Errorf("%s and %s did not meet in %d seeds", a, b, meetingSeeds)
			}
		}
	}
}

const meetingSeeds = 16

// metIn runs the seeds from … to-1, and returns in how many of them each pair of operations was in progress together.
func metIn(t *testing.T, from, to uint64, options func(seed uint64) Options) map[meetings.Pair]int {
	met := map[meetings.Pair]int{}
	for seed := from; seed < to; seed++ {
		o := options(seed)
		r := run(t, o)
		report(t, o, r)
		for p := range r.Met {
			met[p]++
		}
	}
	return met
}

// statementMeetingOptions returns MeetingOptions with the workloads of indexes, views and roles besides.
func statementMeetingOptions(seed uint64) Options {
	o := MeetingOptions(seed)
	o.Extra = append(o.Extra, indexedKind(), viewedKind(), roledKind())
	o.Workloads = append(o.Workloads, "indexed", "viewed", "roled")
	drawIndexes(&o)
	return o
}

// backupMeetingOptions returns statementMeetingOptions with the workload of backups besides. Faults are rarer, because
// a backup needs a ring that is whole for a second.
func backupMeetingOptions(seed uint64) Options {
	o := statementMeetingOptions(seed)
	o.Extra = append(o.Extra, backupsKind(func(*backups.Workload) {}))
	o.Workloads = append(o.Workloads, "backups")
	o.Hurry, o.Faults = 3, 14*time.Second
	return o
}

// TestBackupsMeet runs the seeds in docs/MEETINGS.md for backups and for tables that are dropped and restored: each of
// these operations must have been in progress together with every other operation.
func TestBackupsMeet(t *testing.T) {
	tier.Long(t)
	met := metIn(t, 0, backupSeeds, backupMeetingOptions)
	var own, others []string
	for _, r := range backupRows() {
		own = append(own, r.op)
	}
	for _, r := range statementRows() {
		others = append(others, r.op)
	}
	others = append(others, meetings.Operations()...)
	recordMeetings(t, met, func(p meetings.Pair) bool { return slices.Contains(own, p.A) || slices.Contains(own, p.B) })
	missing := func() (pairs []meetings.Pair) {
		for i, a := range own {
			for _, b := range slices.Concat(others, own[:i]) {
				if met[meetings.PairOf(a, b)]+met[meetings.PairOf(b, a)] == 0 {
					pairs = append(pairs, meetings.PairOf(a, b))
				}
			}
		}
		return pairs
	}
	// The engine writes the time of day into files, whose hashes are the names of objects: unlike others, these runs
	// differ, and an UNDROP or PURGE lasts so short that it meets some operations in one seed of ten only.
	seed := uint64(backupSeeds)
	for ; len(missing()) > 0 && seed < backupSeedsMax; seed++ {
		for p, n := range metIn(t, seed, seed+1, backupMeetingOptions) {
			met[p] += n
		}
	}
	t.Logf("%d seeds", seed)
	for _, p := range missing() {
		t.Errorf("%s and %s did not meet in %d seeds", p.A, p.B, seed)
	}
}

// backupSeeds are counted in docs/MEETINGS.md; backupSeedsMax bounds the search for pairs that have not met in them.
const (
	backupSeeds    = 10
	backupSeedsMax = 80
)

// TestStatementsMeet runs the seeds in docs/MEETINGS.md for statements on indexes, views and roles: each must have been
// in progress together with every other operation. Afterwards, the replicas of each table are compared, as after every
// run.
func TestStatementsMeet(t *testing.T) {
	tier.Long(t)
	met := metIn(t, 0, statementSeeds, statementMeetingOptions)
	statements := []string{opIndex, opBuild, opView, opRoles}
	recordMeetings(t, met, func(p meetings.Pair) bool {
		return slices.Contains(statements, p.A) || slices.Contains(statements, p.B)
	})
	for i, a := range statements {
		for _, b := range append(meetings.Operations(), statements[:i]...) {
			if met[meetings.PairOf(a, b)]+met[meetings.PairOf(b, a)] == 0 {
				t.Errorf("%s and %s did not meet in %d seeds", a, b, statementSeeds)
			}
		}
	}
}

const statementSeeds = 8

// datacenterLossOptions returns the options of a run in which each operation of members meets the loss of one of three
// data centers.
func datacenterLossOptions(seed uint64) Options {
	o := DefaultOptions(seed)
	o.Points, o.PageBytes, o.Meet = nil, 0, true
	o.Datacenters, o.Nodes, o.Factor, o.NodesMost = []int{2, 2, 2}, 7, 6, 10
	o.Levels = false
	o.Faults, o.Hurry, o.ConvergeBy = 10*time.Second, 3, ByRepair
	o.Workloads, o.Clients = []string{"cas", "churn"}, 3
	o.FaultKinds = []string{"dc-loss", "join", "leave", "move", "rebuild", "repair", "wiped-disk", "removenode"}
	return o
}

// TestMembersMeetLossOfADatacenter runs rings of three data centers of which one after the other is lost for a while:
// every operation of members must have been in progress with it.
func TestMembersMeetLossOfADatacenter(t *testing.T) {
	tier.Long(t)
	met := metIn(t, 0, lossSeeds, datacenterLossOptions)
	for _, op := range []string{meetings.Join, meetings.Decommission, meetings.Move, meetings.Replace,
		meetings.Rebuild, meetings.Repair, meetings.SchemaChange} {
		if met[meetings.PairOf(meetings.DatacenterLoss, op)] == 0 {
			t.Errorf("%s and %s did not meet in %d seeds", op, meetings.DatacenterLoss, lossSeeds)
		}
	}
}

const lossSeeds = 6

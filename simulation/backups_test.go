package simulation

import (
	"slices"
	"testing"
	"time"

	"cqld/internal/mutant"
	"cqld/internal/tier"
	"cqld/simulation/backups"
	"cqld/simulation/kernel"
)

// backupsOnly makes a run one of backups and restorations. A backup needs a ring that is whole for a second, so that
// faults are rarer than in other runs, and half of the runs have no changes of the ring.
func backupsOnly(o *Options) {
	r := kernel.NewStream(o.Seed, "options backups")
	o.Extra = append(o.Extra, backupsKind(func(*backups.Workload) {}))
	o.Workloads = []string{"backups"}
	if r.Chance(400) {
		o.Workloads = append(o.Workloads, "churn", "reborn")
	}
	calm := r.Chance(600)
	o.FaultKinds = slices.DeleteFunc(o.FaultKinds, func(kind string) bool {
		return changesMembers(kind) && calm || r.Chance(400)
	})
	for _, kind := range []string{"kill", "flush", "repair", "rebuild", "restart", "clock-leap", "snapshot"} {
		if r.Chance(250) {
			o.FaultKinds = append(o.FaultKinds, kind)
		}
	}
	o.TornWrites, o.Encrypted, o.Faults = r.Chance(500), r.Chance(300), 15*time.Second
	// A third of the faults of the plan.
	some := []int{}
	for _, f := range plan(*o) {
		if r.Chance(330) {
			some = append(some, f.number)
		}
	}
	o.OnlyFaults = some
	o.ConvergeBy = []string{ByReads, ByHints, ByRepair}[r.Intn(3)]
}

// TestBackups makes backups of a ring while it changes and fails, and restores them.
func TestBackups(t *testing.T) {
	total := runAlone(t, alone(), 20, backupsOnly)
	t.Logf("%v", total.Counted)
}

// directoryOnly makes the store of a run a directory of a machine whose power is cut.
func directoryOnly(o *Options, unsynced bool) {
	backupsOnly(o)
	o.Extra = []workloadKind{backupsKind(func(w *backups.Workload) { w.Directory, w.Unsynced = true, unsynced })}
}

// TestBackupsInADirectory makes and restores backups in a directory. What was reported as complete is complete after
// each power cut of its machine.
func TestBackupsInADirectory(t *testing.T) {
	total := runAlone(t, alone(), 20, func(o *Options) { directoryOnly(o, false) })
	t.Logf("%v", total.Counted)
	if total.Counted["power cuts of the store of backups"] == 0 {
		t.Error("the power of the store was never cut")
	}
}

// TestBackupsNeedSyncs shows that the simulation finds a file system whose syncs have no effect.
func TestBackupsNeedSyncs(t *testing.T) {
	mustFail(t, 0, 60, func(o *Options) { directoryOnly(o, true) }, "objects that it needs are damaged",
		"is not in the store", "checking backup")
}

// TestBackupsNeedTheirObjects shows that the simulation finds a store that loses an object.
func TestBackupsNeedTheirObjects(t *testing.T) {
	mustFail(t, 0, 60, func(o *Options) {
		backupsOnly(o)
		o.Extra = []workloadKind{backupsKind(func(w *backups.Workload) { w.LoseObjects = true })}
	}, "objects that it needs are damaged")
}

// TestBackupsNeedAcknowledgedChanges shows that the simulation finds changes that a backup does not have.
func TestBackupsNeedAcknowledgedChanges(t *testing.T) {
	mustFail(t, 0, 60, func(o *Options) {
		backupsOnly(o)
		o.Extra = []workloadKind{backupsKind(func(w *backups.Workload) { w.AcknowledgeUnsent = true })}
	}, "was restored: row", "checking backup")
}

// momentsOnly makes a run one of backups, archived logs and moments that are restored.
func momentsOnly(o *Options) {
	backupsOnly(o)
	o.Extra = []workloadKind{backupsKind(func(w *backups.Workload) { w.Archive = true })}
	o.Archived = true
	// A clock that is ahead by more than a minute is not followed: its writes have no place in the order of the ring.
	o.FaultKinds = slices.DeleteFunc(o.FaultKinds, func(kind string) bool { return kind == "clock-leap" })
	// What is archived must be on the disk, and the rest must be found there.
	o.FaultKinds = append(o.FaultKinds, "kill", "power-one", "power-all", "restart", "flush", "clock-jump")
	r := kernel.NewStream(o.Seed, "options moments")
	// A backup needs a ring that is whole for a second, and a change takes seconds.
	if r.Chance(600) {
		o.FaultKinds = append(o.FaultKinds, "join", "leave", "move", "rebuild", "wiped-disk")
	}
	o.OnlyFaults = nil
	some := []int{}
	for _, f := range plan(*o) {
		if r.Chance(330) {
			some = append(some, f.number)
		}
	}
	o.OnlyFaults = some
}

// TestMoments archives the logs of a ring while it changes and fails, and restores moments. Each has what was
// acknowledged until then by the hybrid clock, on each replica, and nothing that was begun later.
func TestMoments(t *testing.T) {
	// With -seeds, also many.
	n := tier.Draws(max(*seeds/25, min(*seeds, 6)), 2)
	total := runAlone(t, n, 20, momentsOnly)
	t.Logf("%v", total.Counted)
	if total.Counted["moments restored"] < n {
		t.Errorf("%d moments were restored", total.Counted["moments restored"])
	}
	if n >= 20 && total.Counted["moments restored after a change of the ring"] == 0 {
		t.Error("no moment was restored after a change of the ring")
	}
}

// TestMomentsNeedTheArchive shows that the simulation finds faults of the archive and of its replay.
func TestMomentsNeedTheArchive(t *testing.T) {
	for _, key := range []string{"archive/tail-of-a-log-skipped", "archive/moment-ignored-by-the-replay",
		"archive/removals-not-replayed"} {
		t.Run(key, func(t *testing.T) {
			mutant.Need(t, key)
			mustFail(t, 0, 60, momentsOnly, "the moment is")
		})
	}
}

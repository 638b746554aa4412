package simulation

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"cqld/simulation/kernel"
)

// faultKind names a kind of fault. A new kind is a name in faultKinds, and a method in strikes of the type of its
// group. The names are options of the command that repeats a run, and keys of Result.Counted.
type faultKind string

// late reports whether a kind was added later: it is drawn from a stream of its own, so that seeds without it do not
// change.
func (k faultKind) late() bool {
	return slices.Contains([]faultKind{"move", "removenode", "abort", "raft-fsync-error", "raft-write-error",
		"raft-full"}, k)
}

// explicitOnly reports whether a kind is used only if the options name it: no seed draws it. Tests of one effect name
// these.
func (k faultKind) explicitOnly() bool {
	return slices.Contains([]faultKind{"stop", "dc-loss", "split", "merge", "reassign"}, k)
}

// drawn reports whether only DrawnOptions draws a kind, so that the seeds of DefaultOptions do not change.
func (k faultKind) drawn() bool {
	return slices.Contains([]faultKind{"restart", "power-torn", "clock-leap", "dc-cut", "dc-slow", "rebuild", "repair",
		"snapshot"}, k)
}

// faultKinds returns the kinds that seeds draw from. Their order is part of what a seed draws.
func faultKinds() []faultKind {
	return []faultKind{
		// processes
		"kill", "power-one", "power-all", "restart-storm", "pause", "stop",
		// the network
		"isolate", "one-way", "halves", "bridge", "ring", "bad-links", "slow-links", "reorder",
		// clocks
		"clock-jump", "clock-drift", "clock-strobe",
		// disks
		"slow-disk", "fsync-error", "write-error", "read-error", "disk-full", "flush", "bit-flip", "wiped-disk",
		// members
		"join", "leave", "move", "removenode", "abort",
		// data centers, and commands of operators
		"restart", "power-torn", "clock-leap", "dc-cut", "dc-slow", "dc-loss", "rebuild", "repair", "snapshot",
		// the disk of the Raft log
		"raft-fsync-error", "raft-write-error", "raft-full",
		// single ranges
		"split", "merge", "reassign",
	}
}

// nemesis causes the faults of a run. It knows the plan in advance, and decides nothing by what the cluster does: a
// fault that finds no suitable node is skipped.
type nemesis struct {
	c *Cluster
	// plan contains the faults in the order of their times.
	plan []fault
	// random draws when processes end whose storage has failed, and when they start again.
	random *kernel.Stream
	// strikes begin a fault of each kind, and schedule its end.
	strikes map[faultKind]func(*kernel.Stream)
}

// newNemesis returns the nemesis of a cluster, whose operator and verifier exist.
func newNemesis(c *Cluster) *nemesis {
	m := &nemesis{
		c:       c,
		plan:    plan(c.options),
		random:  kernel.NewStream(c.options.Seed, "fatal"),
		strikes: map[faultKind]func(*kernel.Stream){"snapshot": c.verify.snapshotNode},
	}
	// TestEveryFaultKindStrikes compares the names of these groups with faultKinds.
	for _, group := range []map[faultKind]func(*kernel.Stream){
		processFaults{c}.strikes(),
		linkFaults{c}.strikes(),
		clockFaults{c}.strikes(),
		storageFaults{c}.strikes(),
		c.operator.strikes(),
	} {
		maps.Copy(m.strikes, group)
	}
	return m
}

// fault is one fault in the plan of a run. Its random numbers depend only on the seed and its number, so that others
// can be omitted.
type fault struct {
	// number counts from 1, in the order of the complete plan: it stays when others are omitted.
	number int
	at     time.Duration
	kind   faultKind
}

// String returns the name of the fault for the option -faults.
func (f fault) String() string { return fmt.Sprintf("%d %s at %v", f.number, f.kind, f.at) }

// plan draws the faults of a run, of the kinds that the seed has enabled. Times are relative to Cluster.began, before
// TimeScale.
func plan(o Options) (faults []fault) {
	r := kernel.NewStream(o.Seed, "nemesis")
	var kinds []faultKind
	for _, k := range faultKinds() {
		if slices.Contains(o.FaultKinds, string(k)) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	// The first fault strikes when clients are active.
	at := r.Between(100*time.Millisecond, 500*time.Millisecond)
	// All numbers are drawn before the selection by OnlyFaults, so an omitted fault does not move or change the
	// others.
	for number := 1; at < o.Faults; number++ {
		f := fault{number: number, at: at, kind: kinds[r.Intn(len(kinds))]}
		at += r.Between(50*time.Millisecond, 1200*time.Millisecond) / time.Duration(max(1, o.Hurry))
		if o.OnlyFaults == nil || slices.Contains(o.OnlyFaults, number) {
			faults = append(faults, f)
		}
	}
	return faults
}

// torment schedules the faults of the plan. Faults may overlap in any combination, also two of one kind.
func (m *nemesis) torment() {
	c := m.c
	for _, f := range m.plan {
		c.later(f.at, "fault", func() {
			c.count(string(f.kind))
			c.kernel.Trace(string(f.kind))
			// A fault that cannot strike at the moment, such as at a node that is down, does nothing, but counts.
			m.strikes[f.kind](kernel.NewStream(c.options.Seed, fmt.Sprint("fault ", f.number)))
		})
	}
}

// stopFatal stops the processes whose storage has failed, after a moment: their acknowledgements until then must be
// valid nevertheless. It runs after every event (Kernel.AfterEvent), because the error may have been set by a goroutine
// of Pebble during it.
func (m *nemesis) stopFatal() {
	c := m.c
	for _, n := range c.nodes {
		l := n.process
		if l == nil || l.ending || l.fatal.Load() == nil {
			continue
		}
		// Clients can no longer connect (serves). Requests in progress continue.
		l.ending = true
		c.count("nodes stopped by themselves")
		// Noted, not traced: storage's messages vary with the files that are open.
		c.kernel.Note("node", n.id, "stops:", *l.fatal.Load())
		c.kernel.After(m.random.Between(0, 500*time.Millisecond), "fatal", func() {
			// Another fault may have ended it meanwhile.
			if !l.Ended() {
				n.crash(true)
				c.kernel.After(c.scaled(m.random.Between(20*time.Millisecond, time.Second)), "restart", n.start)
			}
		})
	}
}

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cqld/simulation/kernel"
)

// The mechanism that must make replicas equal in a healed cluster before any client reads them.
const (
	// ByReads reads every row at ALL before the replicas are compared.
	ByReads = "reads"
	// ByHints compares the replicas when no hint is left, before any read or repair.
	ByHints = "hints"
	// ByRepair compares the replicas after a repair of every table, before any read.
	ByRepair = "repair"
)

// DrawnOptions returns the options of TestSim. They are DefaultOptions with, for most seeds, a ring of another shape: 3
// to 10 nodes in one to three data centers, replication factors of 1 to 5, consistency levels that are drawn for each
// request, and faults that DefaultOptions does not draw. At least a third of the seeds have changes of the ring and
// restarts.
func DrawnOptions(seed uint64) Options {
	o := DefaultOptions(seed)
	// A stream of its own: the draws below do not change the draws of DefaultOptions for the same seed.
	r := kernel.NewStream(seed, "drawn")
	// By the number of the seed, so that the draws of a seed remain the same.
	o.Encrypted = seed%3 == 1
	// A quarter of the seeds keep the shape of DefaultOptions.
	if r.Chance(250) {
		o.drawConditional(seed)
		return o
	}
	o.drawShape(r)
	o.Levels, o.TornWrites = r.Chance(750), r.Chance(600)
	o.ConvergeBy = []string{ByReads, ByHints, ByRepair}[r.Intn(3)]
	for _, kind := range workloadKinds() {
		if kind.drawn && r.Chance(250) {
			o.Workloads = append(o.Workloads, kind.name)
		}
	}
	for _, kind := range faultKinds() {
		if kind.drawn() && r.Chance(250) {
			o.FaultKinds = append(o.FaultKinds, string(kind))
		}
	}
	if r.Chance(150) {
		o.Points = append(o.Points, "lose-commits")
	}
	if r.Chance(600) {
		o.drawRingChanges(r)
	}
	// With the faults that excuse hints, the comparison of a run by hints would skip many partitions.
	if o.ConvergeBy == ByHints && r.Chance(500) {
		o.spareHints()
	}
	// It is followed by drawConditional only, which replaces the workloads.
	o.boundCost(r)
	o.drawConditional(seed)
	return o
}

// drawConditional makes a fifth of the seeds runs of conditional changes alone, under which their state must survive:
// power cuts with commits at every level, and changes of the ring with three replicas. Commits are often lost, so that
// decisions are for a long time in the state of acceptors alone. Conditional changes keep decisions in acceptors until
// the commit arrives, and lost commits extend that time: a fault that loses state of acceptors then loses a decision.
func (o *Options) drawConditional(seed uint64) {
	// By the number of the seed and not by a draw, so that a range of consecutive seeds always contains them.
	switch seed % 10 {
	case 3:
		o.FaultKinds, o.Points = []string{"power-all", "power-one", "power-torn"}, []string{"drop-hint", "lose-commits"}
		o.TornWrites = true
		if seed/10%2 == 0 { // the acceptances of two replicas suffice to lose a decision
			o.FaultKinds, o.TornWrites = []string{"power-all", "power-one", "restart-storm"}, false
			o.setFactors([]int{-3})
			o.Nodes, o.NodesMost = 3, 3
		}
	case 8: // clients end soon: later changes of a partition would transfer its state to the nodes that gain it
		o.FaultKinds, o.Points = []string{"join", "leave", "move"}, []string{"drop-hint", "lose-commits"}
		o.setFactors([]int{-3})
		// A decision is lost only if two of the three replicas of its partition change: many partitions meet that.
		o.Nodes, o.NodesMost, o.Clients, o.Turns, o.Registers, o.Faults = 6, 7, 4, 20, 40, 10*time.Second
		o.PaxosMargin, o.ConvergeBy = 0, ByReads
	default:
		return
	}
	o.Workloads, o.Levels = []string{"cas"}, true
}

// drawShape draws the numbers of nodes and replicas. A replication factor of 1 makes any lost node an unavailable
// range, and 2 makes QUORUM equal ALL: both must fail cleanly.
func (o *Options) drawShape(r *kernel.Stream) {
	// Half of these seeds have three replicas.
	factors := []int{1, 2, 3, 3, 3, 3, 4, 5}
	o.Datacenters, o.Factor = nil, factors[r.Intn(len(factors))]
	if r.Chance(450) {
		// The replication factors of the data centers. {3} is NetworkTopologyStrategy with one data center.
		shapes := [][]int{{1, 1}, {2, 1}, {2, 2}, {3, 1}, {3, 2}, {3, 2}, {3, 3}, {1, 1, 1}, {2, 1, 1}, {3}}
		o.Datacenters = slices.Clone(shapes[r.Intn(len(shapes))])
		o.Factor = 0
		for _, f := range o.Datacenters {
			o.Factor += f
		}
		o.Far = r.Between(0, 30*time.Millisecond)
		if o.Limits.RangesInFlight == 1 {
			// Otherwise a scan of the ring, with one range at a time, takes longer than operationTimeout.
			o.Far %= 5 * time.Millisecond
		}
	}
	// With more nodes than replicas, some coordinators are not replicas of the partition.
	o.Nodes = max(3, o.Factor+r.Intn(3))
	if o.Factor <= 3 && r.Chance(150) {
		o.Nodes = 7 + r.Intn(4)
	}
	o.NodesMost = min(10, max(o.Nodes+1, nodesMost))
}

// drawRingChanges makes changes of the ring, restarts and conditional changes coincide. Names that are drawn already
// are not added twice.
func (o *Options) drawRingChanges(r *kernel.Stream) {
	add := func(to *[]string, names ...string) {
		for _, name := range names {
			if !slices.Contains(*to, name) {
				*to = append(*to, name)
			}
		}
	}
	add(&o.FaultKinds, "join", []string{"leave", "move"}[r.Intn(2)],
		[]string{"restart", "kill", "power-one"}[r.Intn(3)])
	if r.Chance(600) {
		add(&o.Workloads, "cas")
	}
}

// spareHints removes the faults with which hints are not guaranteed: processes that end between a write and its hints,
// and limits that drop hints.
func (o *Options) spareHints() {
	o.FaultKinds = slices.DeleteFunc(o.FaultKinds, func(kind string) bool {
		return endsProcesses(kind) || kind == "disk-full" || kind == "removenode" || kind == "wiped-disk"
	})
	o.Points = slices.DeleteFunc(o.Points, func(p string) bool { return p == "drop-hint" })
	o.HintLimits.BytesPerNode = 0
}

// endsProcesses reports whether a kind of fault ends processes.
func endsProcesses(kind string) bool {
	// Faults of disks are among them, because a process whose storage fails stops.
	return slices.Contains([]string{"kill", "power-one", "power-all", "power-torn", "restart", "restart-storm",
		"fsync-error", "write-error",
		"raft-fsync-error", "raft-write-error", "raft-full", "bit-flip"}, kind)
}

// boundCost keeps the cost of a seed similar for all shapes: large rings have fewer workloads and less time. Without
// the bound, rings of ten nodes with all workloads would take most of the time of a test.
func (o *Options) boundCost(r *kernel.Stream) {
	most := 5
	if o.Nodes > 6 {
		most, o.Faults = 3, 4*time.Second
	}
	// The workload cas stays, because drawRingChanges may have added it to coincide with changes of the ring.
	for len(o.Workloads) > most {
		i := r.Intn(len(o.Workloads))
		if o.Workloads[i] == "cas" {
			i = (i + 1) % len(o.Workloads)
		}
		o.Workloads = slices.Delete(slices.Clone(o.Workloads), i, i+1)
	}
}

// changesRing reports whether the ring changes in a run; restarts whether processes end and start again.
func (o Options) changesRing() bool {
	return slices.ContainsFunc(o.FaultKinds, changesMembers)
}

// changesMembers reports whether a kind of fault changes the ring.
func changesMembers(kind string) bool {
	// An aborted operation is no kind of its own: the fault abort needs one of these.
	return slices.Contains([]string{"join", "leave", "move", "removenode", "wiped-disk"}, kind)
}

func (o Options) restarts() bool { return slices.ContainsFunc(o.FaultKinds, endsProcesses) }

// factors returns the replication factors of the data centers; a negative one means SimpleStrategy.
func (o Options) factors() []int {
	// The sign distinguishes SimpleStrategy from NetworkTopologyStrategy with one data center.
	if len(o.Datacenters) == 0 {
		return []int{-o.Factor}
	}
	return o.Datacenters
}

// setFactors is the inverse of factors. A list of one negative number is SimpleStrategy with that many replicas.
func (o *Options) setFactors(factors []int) {
	o.Datacenters, o.Factor = nil, 0
	for _, f := range factors {
		o.Factor += max(f, -f)
		if f > 0 {
			o.Datacenters = append(o.Datacenters, f)
		}
	}
}

// drawnString describes the additional options of DrawnOptions.
func (o Options) drawnString() string {
	var b strings.Builder
	if len(o.Datacenters) > 0 {
		fmt.Fprintf(&b, " %v in data centers %v apart", o.Datacenters, o.Far)
	}
	if o.Levels {
		b.WriteString(", all levels")
	}
	if o.TornWrites {
		b.WriteString(", torn writes")
	}
	if o.Encrypted {
		b.WriteString(", encrypted")
	}
	if o.ConvergeBy != "" {
		fmt.Fprintf(&b, ", converges by %s", o.ConvergeBy)
	}
	return b.String()
}

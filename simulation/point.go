package simulation

import "slices"

// point is a rare code path with the option that causes it. Seeds draw which points are enabled. A rare path is better
// forced in some runs than hoped for in all (compare Pebble's invariants.Sometimes).
type point struct {
	name string
	// set changes the options before the cluster is created.
	set func(o *Options)
	// drawn means that only DrawnOptions draws it.
	drawn bool
}

// points returns the points that seeds draw from.
func points() []point {
	return []point{
		{name: "drop-hint", set: func(o *Options) { o.HintLimits.BytesPerNode = 1 }}, // the limit admits no hint
		// Points without options are examined where they act (Options.at).
		{name: "early-timeout", set: func(*Options) {}},
		{name: "one-row-pages", set: func(o *Options) {
			if !o.wantsPartitions() {
				o.PageBytes, o.Limits.ResultBytes = 1, 1
			}
		}},
		{name: "tiny-memtable", set: func(*Options) {}},
		// Most commits of conditional changes are lost: decided changes are only in the state of acceptors.
		{name: "lose-commits", set: func(*Options) {}, drawn: true},
	}
}

// wantsPartitions reports whether a workload requires a partition to fit into one page: a condition is evaluated on one
// page, and a change is observed as a whole in one page.
func (o Options) wantsPartitions() bool {
	return o.has("append") || o.has("bank") || o.has("isolation") || o.has("graves") || o.has("entity") || o.has("rich")
}

// at reports whether a point is enabled.
func (o Options) at(name string) bool { return slices.Contains(o.Points, name) }

// withPoints returns the options with those that the points set. It is applied once, at the start of Run.
func (o Options) withPoints() Options {
	for _, p := range points() {
		if o.at(p.name) {
			p.set(&o)
		}
	}
	return o
}

// memTableBytes returns the size of a memtable. A tiny one is flushed within a run. It is larger if logs fail, because
// Pebble ends the process if it cannot close the log of a full memtable.
func (o Options) memTableBytes() int64 {
	fails := slices.Contains(o.FaultKinds, "fsync-error") || slices.Contains(o.FaultKinds, "write-error")
	if o.at("tiny-memtable") && !fails {
		return 16 << 10
	}
	return 1 << 20
}

package simulation

import (
	"slices"
	"time"

	"cqld/messaging"
)

// point is a place where the code has a rare way, and what makes it take that. Seeds draw which are on.
type point struct {
	name string
	set  func(o *Options)
	// drawn says that only DrawnOptions draw it.
	drawn bool
}

// points is the list that seeds draw from.
func points() []point {
	return []point{
		{name: "drop-hint", set: func(o *Options) { o.HintLimits.BytesPerNode = 1 }}, // there is no room for any
		{name: "early-timeout", set: func(*Options) {}},
		{name: "one-row-pages", set: func(o *Options) {
			if !o.wantsPartitions() {
				o.PageBytes, o.Limits.ResultBytes = 1, 1
			}
		}},
		{name: "tiny-memtable", set: func(*Options) {}},
		// Most commits of conditional changes are lost: what was decided is in the state of acceptors, and nowhere else.
		{name: "lose-commits", set: func(*Options) {}, drawn: true},
	}
}

// wantsPartitions says whether a workload needs to see a partition in one page: a condition reads one page, a
// change is seen whole in one page.
func (o Options) wantsPartitions() bool {
	return o.has("append") || o.has("bank") || o.has("isolation") || o.has("graves") || o.has("entity") || o.has("rich")
}

// at says whether a point is on.
func (o Options) at(name string) bool { return slices.Contains(o.Points, name) }

// withPoints are the options with what the points set.
func (o Options) withPoints() Options {
	for _, p := range points() {
		if o.at(p.name) {
			p.set(&o)
		}
	}
	return o
}

// memTableBytes is the size of a memtable: a tiny one is written out within a run. Where logs fail it is not:
// Pebble ends the process when it cannot close the log of a memtable that is full.
func (o Options) memTableBytes() int64 {
	fails := slices.Contains(o.FaultKinds, "fsync-error") || slices.Contains(o.FaultKinds, "write-error")
	if o.at("tiny-memtable") && !fails {
		return 16 << 10
	}
	return 1 << 20
}

// losesCommits says whether a request is the commit of a conditional change that is lost on its way.
func (n *Network) losesCommits(verb messaging.Verb) bool {
	return verb == messaging.VerbPaxosCommit && n.lossy != nil && n.lossy.Chance(800)
}

// earlyTimeout is the timeout of a request between nodes, which may be over before any answer comes.
func (t *Transport) earlyTimeout(timeout time.Duration) time.Duration {
	if t.net.early != nil && t.net.early.Chance(100) {
		return t.net.early.Between(0, timeout)
	}
	return timeout
}

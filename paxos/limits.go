package paxos

import "cmp"

// Limits are the bounds of a Proposer. Zero means the default.
type Limits struct {
	// InFlight bounds the conditional changes and serial reads that are executed or queued: each retains four pages
	// (mostly a few KiB); 4,096 of 8 KiB are 128 MiB.
	InFlight int64
	// Round bounds the changes of one partition in a round: at 5 ms for a round of three syncs, a partition executes
	// 25,000 changes a second.
	Round int
	// RoundSlices bounds the rows, or intervals of rows, that one round reads: 40 changes of 100 rows. Applying the
	// changes of a round to each other's pages costs at most its rows for each change, about 0.3 µs each: 25 ms.
	RoundSlices int
	// RoundBytes is the size at which a proposal accepts no further change: the acceptors write it to their log, like a
	// write of that size, and the writes queued after it should not wait long. A single change may be larger.
	RoundBytes int
	// LastBallots bounds the partitions whose last ballot a proposer remembers, if it was its own: those can be changed
	// again without promises. 150 bytes each: 600 KiB.
	LastBallots int
	// PlansMax bounds how often a round is planned if acceptors refuse it because of their epoch. With pauses of 10,
	// 20, 40, … 640 ms it waits 1.3 s, and metadata reaches every node in a few ms.
	PlansMax int
}

// withDefaults replaces zero fields by their defaults.
func (l Limits) withDefaults() Limits {
	l.InFlight = cmp.Or(l.InFlight, 4_096)
	l.Round = cmp.Or(l.Round, 128)
	l.RoundSlices = cmp.Or(l.RoundSlices, 4_096)
	l.RoundBytes = cmp.Or(l.RoundBytes, 1<<20)
	l.LastBallots = cmp.Or(l.LastBallots, 4_096)
	l.PlansMax = cmp.Or(l.PlansMax, 8)
	return l
}

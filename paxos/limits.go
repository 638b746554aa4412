package paxos

import "cmp"

// Limits are the bounds of a Proposer. Zero means the default.
type Limits struct {
	// InFlight is how many conditional changes and serial reads may be under way or wait for one
	// before them: each keeps four pages (mostly a few KiB); 4,096 of 8 KiB are 128 MiB.
	InFlight int64
	// Round is how many of one partition go in one round: at 5 ms for a round of three syncs, a partition
	// takes 25,000 changes a second.
	Round int
	// RoundSlices is how many rows, or intervals of rows, one round reads: 40 changes of 100 rows. To apply
	// the changes of a round on top of each other costs at most its rows for each change, some 0.3 µs each: 25 ms.
	RoundSlices int
	// RoundBytes is when a proposal takes in no further change: it stands in the acceptors' log, like
	// a write of that size, and what waits behind it should not wait long. One change may be greater.
	RoundBytes int
	// LastBallots is how many partitions a proposer remembers that it was the last to change: those it
	// changes again without promises. 150 bytes each: 600 KiB.
	LastBallots int
	// PlansMax is how often a round is planned when acceptors refuse it for their epoch. With
	// pauses of 10, 20, 40, … 640 ms it waits 1.3 s, and metadata reaches every node in a few ms.
	PlansMax int
}

// withDefaults fills in what is zero.
func (l Limits) withDefaults() Limits {
	l.InFlight = cmp.Or(l.InFlight, 4_096)
	l.Round = cmp.Or(l.Round, 128)
	l.RoundSlices = cmp.Or(l.RoundSlices, 4_096)
	l.RoundBytes = cmp.Or(l.RoundBytes, 1<<20)
	l.LastBallots = cmp.Or(l.LastBallots, 4_096)
	l.PlansMax = cmp.Or(l.PlansMax, 8)
	return l
}

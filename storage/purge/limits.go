package purge

import "time"

// The bounds of this package.
const (
	// PassEvery is how long the purger rests after it has seen everything; sweepRows is how much
	// it looks at before it pauses for PauseEvery, which keeps it at a few percent of one core.
	PassEvery  = 10 * time.Minute
	sweepRows  = 2_000
	PauseEvery = 20 * time.Millisecond
	// StartAfter is how long the purger waits after a start before it continues.
	StartAfter = 10 * time.Second
	// SaveEvery is the number of steps of a pass after which its position is saved: a restart repeats a second of
	// it.
	SaveEvery = 32
	// sweepBatch and sweepBatchBytes bound what is overwritten under one latch: some 0.5 ms. From purgeRangeMin
	// adjacent rows on, one range deletion removes them: readers go over it in one step, but each costs every new
	// iterator 0.1 µs.
	sweepBatch      = 512
	sweepBatchBytes = 1 << 20
	purgeRangeMin   = 64
	// suspectBytes is the size in files from which what a deletion covers is purged without a read: a thousand small
	// rows.
	suspectBytes = 16 << 10
	// sweepDeadRows is how much is purged of the partitions that wait before a pause: a quarter of a core.
	sweepDeadRows = 10_000
)

package purge

import "time"

// The bounds of this package.
const (
	// PassEvery is how long the purger rests after a complete pass; sweepRows is the number of entries that it scans
	// before it pauses for PauseEvery, which keeps it at a few percent of one core.
	PassEvery  = 10 * time.Minute
	sweepRows  = 2_000
	PauseEvery = 20 * time.Millisecond
	// StartAfter is how long the purger waits after a start before it continues.
	StartAfter = 10 * time.Second
	// SaveEvery is the number of steps of a pass after which its position is saved: a restart repeats a second of
	// it.
	SaveEvery = 32
	// sweepBatch and sweepBatchBytes bound the rows that are overwritten under one latch: some 0.5 ms. purgeRangeMin
	// is the number of adjacent rows from which one range deletion removes them: readers skip it in one step, but
	// each range deletion costs every new iterator 0.1 µs.
	sweepBatch      = 512
	sweepBatchBytes = 1 << 20
	purgeRangeMin   = 64
	// suspectBytes is the size in files from which the rows covered by a deletion are purged without waiting for a
	// read: a thousand small rows.
	suspectBytes = 16 << 10
	// sweepDeadRows is the number of entries of reported partitions that the purger scans before a pause: it uses at
	// most a quarter of a core.
	sweepDeadRows = 10_000
)
